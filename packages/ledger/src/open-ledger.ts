import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { nodeWorld, OncewardError, type World } from 'onceward';
import { Checkpointer } from './checkpointer.ts';
import { newCounters } from './counters.ts';
import { Ledger } from './ledger.ts';
import { EmbeddedLog } from './log/embedded-log.ts';
import type { LedgerLog } from './log/ledger-log.ts';
import { NearTier } from './pipeline/near-tier.ts';
import { Pipeline } from './pipeline/pipeline.ts';
import { recover } from './recover.ts';
import {
  checkSettings,
  DEFAULT_SETTINGS,
  type LedgerSettings,
  machineSettings,
} from './settings.ts';
import type { LedgerHome } from './state/ledger-home.ts';
import { LmdbHome } from './state/lmdb-home.ts';

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
  const settings = checkSettings({ ...DEFAULT_SETTINGS, ...withoutUndefined(options) });
  const world = options.world ?? nodeWorld();
  const log = options.log ?? (await EmbeddedLog.open({ directory: join(folder(options), 'log') }));
  let home: LedgerHome | undefined = options.home;
  try {
    // After the log, whose lock keeps every other process out of both.
    home ??= await LmdbHome.open(join(folder(options), 'state'));
    return await start(settings, world, log, home);
  } catch (error) {
    await home?.close();
    await log.close();
    throw error;
  }
}

async function start(
  settings: LedgerSettings,
  world: World,
  log: LedgerLog,
  home: LedgerHome,
): Promise<Ledger> {
  const { machine, book, replayed, rebuiltBecause } = await recover(
    home,
    log,
    settings.workingSetRows,
  );
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
    batchSize: settings.batchSize,
    batchTimeoutMs: settings.batchTimeoutMs,
    applied: (byteLength) => {
      counters.batches += 1;
      if (!checkpointer.note(byteLength)) return;
      checkpointer.run().catch((error) => pipeline.stop(error));
    },
  });
  const seed = machine.settings.hash_seed || randomBytes(4).readUInt32LE(0) || 1;
  await pipeline.barrier(machineSettings(settings, seed));
  if (checkpointer.note(replayed.byteLength)) await checkpointer.run();
  const near = new NearTier(world, settings.nearTierEntries, settings.nearTierTtlMs);
  const opening = { term, barrier, replayedEntries: replayed.entries, rebuiltBecause };
  const parts = { world, log, home, machine, book, pipeline, checkpointer, counters, near };
  return new Ledger({ ...parts, opening });
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
