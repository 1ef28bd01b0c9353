import type { Durability, StoreFinding } from '../durability.ts';
import { invalidConfig } from '../invalid-config.ts';
import type { PgClient } from './pg-driver.ts';

export interface DurabilityProof {
  readonly durability: Durability;
  readonly findings: readonly StoreFinding[];
}

const SETTINGS = [
  'fsync',
  'full_page_writes',
  'synchronous_commit',
  'synchronous_standby_names',
  'default_transaction_isolation',
  'server_encoding',
] as const;

type Settings = Readonly<Record<(typeof SETTINGS)[number], string>>;

/** Asks the server for the settings that decide what an acknowledged commit is worth. */
export async function proveDurability(client: PgClient): Promise<DurabilityProof> {
  const columns = SETTINGS.map((name) => `current_setting('${name}') as ${name}`);
  const { rows } = await client.query(`select ${columns.join(', ')}`);
  const settings = rows[0] as Settings;
  if (!['UTF8', 'SQL_ASCII'].includes(settings.server_encoding)) {
    throw invalidConfig(
      `the database has the encoding ${settings.server_encoding}, which cannot hold every key; create one with encoding 'UTF8'`,
    );
  }
  if (settings.default_transaction_isolation !== 'read committed') {
    throw invalidConfig(
      `default_transaction_isolation is "${settings.default_transaction_isolation}" for this user; the store needs ` +
        `"read committed": alter role … set default_transaction_isolation = 'read committed'`,
    );
  }
  const flushes = settings.synchronous_commit !== 'off';
  const replicates = ['on', 'remote_apply'].includes(settings.synchronous_commit);
  const onDisk = settings.fsync === 'on' && settings.full_page_writes === 'on';
  const named = settings.synchronous_standby_names !== '';
  const findings: StoreFinding[] = [
    finding(settings, 'fsync', onDisk, 'a power cut can destroy the database; set it to on'),
    finding(
      settings,
      'synchronous_commit',
      replicates,
      'a commit is acknowledged before it is safe; set it to on',
    ),
    finding(
      settings,
      'synchronous_standby_names',
      named,
      `a failover can lose acknowledged commits; name two standbys: 'ANY 1 (a, b)'`,
    ),
  ];
  return { durability: levelOf(onDisk, flushes, replicates && named), findings };
}

function levelOf(onDisk: boolean, flushes: boolean, replicates: boolean): Durability {
  if (!onDisk || !flushes) return 'none';
  return replicates ? 'replicated' : 'machine';
}

function finding(
  settings: Settings,
  setting: keyof Settings,
  good: boolean,
  advice: string,
): StoreFinding {
  const value = settings[setting] === '' ? '(empty)' : settings[setting];
  return { setting, value, limits: !good, says: good ? 'as it should be' : advice };
}
