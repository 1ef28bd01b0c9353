import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { MachineSettings } from '@onceward/ledger';
import type { Command } from 'commander';
import type { SettingId, Settings } from '../config/settings.ts';
import { SETTINGS } from '../config/settings.ts';
import { CommandFailure } from './exit-code.ts';
import { report, table } from './output.ts';
import { addSettingFlags, configFor } from './setting-flags.ts';

/** Who changed them, from the ledger's blocks. */
const OPERATOR = { actor: 'system:operator', credential: 'operator' } as const;

/** The settings that the ledger keeps, with what they are called in it. */
const KEPT = {
  ledgerTtlHours: 'idempotencyTtlMs',
  ledgerCleanupMinutes: 'idempotencyCleanupMs',
  ledgerDatabaseConflict: 'databaseConflict',
  ledgerEvictionInterval: 'evictionInterval',
  ledgerClientTtlSeconds: 'clientTtlMs',
} as const satisfies Partial<Record<SettingId, string>>;

export function addLedgerSettings(parent: Command): void {
  const command = parent
    .command('ledger-settings')
    .description('show the settings that the ledger keeps, or change them to those that are set')
    .addHelpText(
      'after',
      '\nWithout --apply it only reads. With it, the server must not be running.',
    );
  addSettingFlags(command, ['data'])
    .option('--apply', 'write the settings that are set into the log of the ledger')
    .option('--json', 'print JSON')
    .action(run);
}

async function run(options: Record<string, string | boolean | undefined>): Promise<void> {
  const { settings } = configFor(options);
  const directory = join(settings.data, 'ledger');
  if ((await stat(directory).catch(() => null)) === null) {
    throw new CommandFailure('absent', `there is no ledger in ${settings.data}`);
  }
  const { before, now } =
    options.apply === true ? await apply(directory, settings) : await show(directory);
  const rows = (Object.keys(KEPT) as (keyof typeof KEPT)[]).map((id) => ({
    name: SETTINGS[id].name,
    before: shown(id, before[KEPT[id]]),
    set: settings[id],
    now: shown(id, now[KEPT[id]]),
  }));
  report(options, { settings: rows }, () => {
    const cells = rows.map((row) => [
      row.name,
      `${row.before}`,
      `${row.set ?? '(unset)'}`,
      `${row.now}`,
    ]);
    return table(['setting', 'ledger had', 'set', 'ledger has'], cells);
  });
}

interface Change {
  readonly before: MachineSettings;
  readonly now: MachineSettings;
}

async function show(directory: string): Promise<Change> {
  const { readSettings } = await import('@onceward/ledger');
  const held = readSettings(directory);
  if (held !== null) return { before: held, now: held };
  const message =
    'the ledger has saved nothing yet, so the settings are in its log alone; --apply reads it, and so does a server';
  throw new CommandFailure('absent', message);
}

async function apply(directory: string, settings: Settings): Promise<Change> {
  const { findDisagreements, openLedger } = await import('@onceward/ledger');
  const { givenMachineSettings } = await import('../ledger/ledger-settings.ts');
  const given = givenMachineSettings(settings);
  const ledger = await openLedger({ directory });
  const before = ledger.settings;
  try {
    if (findDisagreements(given, before).length > 0) {
      await ledger.changeSettings(OPERATOR, given);
    }
    return { before, now: ledger.settings };
  } finally {
    await ledger.close();
  }
}

const UNITS: Partial<Record<SettingId, number>> = {
  ledgerTtlHours: 3_600_000,
  ledgerCleanupMinutes: 60_000,
  ledgerClientTtlSeconds: 1_000,
};

/** In the unit of the setting's name. */
function shown(id: keyof typeof KEPT, value: number | string): Settings[keyof typeof KEPT] {
  return typeof value === 'number' ? value / (UNITS[id] ?? 1) : (value as 'rollback');
}
