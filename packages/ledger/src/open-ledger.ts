import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { nodeWorld, OncewardError, type World } from 'onceward';
import { Checkpointer } from './checkpointer.ts';
import { newCounters } from './counters.ts';
import { LmdbHome } from './home/lmdb-home.ts';
import { Ledger } from './ledger.ts';
import { EmbeddedLog } from './log/embedded-log.ts';
import type { LedgerLog } from './log/ledger-log.ts';
import type { Machine } from './pipeline/machine.ts';
import { NearTier } from './pipeline/near-tier.ts';
import { Pipeline } from './pipeline/pipeline.ts';
import { recover } from './recover.ts';
import {
  checkSettings,
  DEFAULT_SETTINGS,
  findDisagreements,
  type LedgerSettings,
  machineSettings,
  settingsOf,
} from './settings.ts';
import type { LedgerHome } from './state/ledger-home.ts';

export interface LedgerOptions extends Partial<LedgerSettings> {
  /** Where the ledger lives: `log` and `state` are made in it. Needed unless both are brought along. */
  readonly directory?: string;
  /** Another home for the log, such as a database that replicates. The ledger closes it. */
  readonly log?: LedgerLog;
  /** Another home for state and blocks. The ledger closes it. */
  readonly home?: LedgerHome;
  readonly world?: World;
}

/**
 * Opens or creates a ledger: brings its state back, writes the barrier of a new term, and serves once that is
 * applied.
 */
export async function openLedger(options: LedgerOptions): Promise<Ledger> {
  const given = withoutUndefined(options);
  const settings = checkSettings({ ...DEFAULT_SETTINGS, ...given });
  const world = options.world ?? nodeWorld();
  const log = options.log ?? (await EmbeddedLog.open({ directory: join(folder(options), 'log') }));
  let home: LedgerHome | undefined = options.home;
  try {
    // After the log, whose lock keeps every other process out of both.
    home ??= await LmdbHome.open(join(folder(options), 'state'));
    return await start({ settings, given, world, log, home });
  } catch (error) {
    await home?.close();
    await log.close();
    throw error;
  }
}

interface Start {
  readonly settings: LedgerSettings;
  /** Those that someone asked for. */
  readonly given: Partial<LedgerSettings>;
  readonly world: World;
  readonly log: LedgerLog;
  readonly home: LedgerHome;
}

async function start({ settings, given, world, log, home }: Start): Promise<Ledger> {
  const { machine, book, replayed, rebuiltBecause, answered } = await recover(
    home,
    log,
    settings.workingSetRows,
  );
  const isNew = machine.height === 0;
  if (!isNew) assertAgreement(given, machine);
  const counters = newCounters();
  const term = Math.max(log.lastTerm, machine.term) + 1;
  const barrier = machine.height + 1;
  const checkpointer = new Checkpointer({ machine, book, home, log, settings, counters });
  const pipeline: Pipeline = new Pipeline({
    world,
    log,
    machine,
    book,
    term,
    answered,
    batchSize: settings.batchSize,
    batchTimeoutMs: settings.batchTimeoutMs,
    applied: (byteLength) => {
      counters.batches += 1;
      checkpointer.noteApplied(byteLength).catch((error) => pipeline.stop(error));
    },
  });
  const hashKey = randomBytes(16).toString('hex');
  await pipeline.barrier(isNew ? machineSettings(settings, hashKey) : undefined);
  await checkpointer.noteApplied(replayed.byteLength);
  const near = new NearTier(world, settings.nearTierEntries, settings.nearTierTtlMs);
  const opening = { term, barrier, answered, replayedEntries: replayed.entries, rebuiltBecause };
  const parts = { world, log, home, machine, book, pipeline, checkpointer, counters, near };
  return new Ledger({ ...parts, opening });
}

/**
 * A replica with settings of its own would expire other keys than the rest. So a caller that opens a ledger
 * leaves these settings out, or gives those of its log.
 */
function assertAgreement(given: Partial<LedgerSettings>, machine: Machine): void {
  const disagreements = findDisagreements(given, settingsOf(machine.settings));
  if (disagreements.length === 0) return;
  throw new OncewardError(
    'ONCE_INVALID_CONFIG',
    `The ledger was not opened, because it goes by other settings: ${disagreements.join('; ')}. ` +
      'These settings change only by an entry in its log: `onceward ledger-settings --apply` writes one. ' +
      'Or take them out of the environment, and the ledger goes by its own.',
  );
}

function folder({ directory }: LedgerOptions): string {
  if (directory !== undefined && directory !== '') return directory;
  throw new OncewardError('ONCE_INVALID_CONFIG', 'A ledger needs a directory to live in.');
}

/** A setting that is given as `undefined` is one that is not given. */
function withoutUndefined<T extends object>(options: T): Partial<T> {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as Partial<T>;
}
