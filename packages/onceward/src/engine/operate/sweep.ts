import type { EngineParts } from '../parts.ts';
import { hasLapsed, isForgettable, isReleased } from '../record/decide.ts';
import type { ScannedRecord } from '../record-store.ts';
import { recordDoubt } from '../run/doubt.ts';
import { callStore, swapRecord, understand } from '../store-access/store-calls.ts';
import { type DurationMs, SECOND } from '../units.ts';
import type { Timer } from '../world.ts';

export interface SweepOptions {
  readonly everyMs?: DurationMs;
  /** Records looked at in one pass, of each kind. */
  readonly batch?: number;
}

export interface SweepResult {
  /** Records whose retention had ended and that are gone now. */
  readonly forgotten: number;
  /** Claims that lapsed and are in doubt now. */
  readonly doubted: number;
  /** Expired records that this pass left for the next one. */
  readonly stale: number;
}

const BOUND = { storeTimeoutMs: 10 * SECOND };

/** One bounded pass over what is due. One that fails half-way still emits what it has left behind. */
export async function sweep(parts: EngineParts, batch: number): Promise<SweepResult> {
  try {
    return await pass(parts, batch);
  } catch (error) {
    const stale = await countStale(parts).catch(() => null);
    if (stale !== null) parts.observe({ type: 'swept', forgotten: 0, stale });
    throw error;
  }
}

async function pass(parts: EngineParts, batch: number): Promise<SweepResult> {
  const { store } = parts;
  if (parts.clock.isUnknown) await parts.clock.compare();
  const now = parts.clock.time().leases;
  const tally = { claims: 0, settled: 0, doubted: 0 };
  const claims = { states: ['pending'], dueBefore: now, limit: batch } as const;
  await sweepFound(parts, store.scanDue?.(now, batch) ?? store.scan(claims), tally);
  if (store.forgetDue !== undefined || store.scanDue === undefined) {
    tally.settled += await forgetSettled(parts, batch);
  }
  // Counting reads records, and is worth it only where a full batch, or a dense share, says that some may be left.
  const many = store.forgetDue === undefined && store.scanDue !== undefined ? batch / 10 : batch;
  const result = {
    forgotten: tally.claims + tally.settled,
    doubted: tally.doubted,
    stale: tally.settled < many ? 0 : await countStale(parts),
  };
  parts.observe({ type: 'swept', forgotten: result.forgotten, stale: result.stale });
  return result;
}

interface Tally {
  /** Forgotten. */
  claims: number;
  settled: number;
  doubted: number;
}

async function sweepFound(
  parts: EngineParts,
  records: AsyncIterable<ScannedRecord>,
  tally: Tally,
): Promise<void> {
  for await (const found of bounded(parts, 'sweep', records)) {
    if (found.state === 'committed' || found.state === 'rejected') {
      if (await forgetIfDue(parts, found)) tally.settled += 1;
      continue;
    }
    const done = await sweepClaim(parts, found);
    if (done === 'forgotten') tally.claims += 1;
    if (done === 'doubted') tally.doubted += 1;
  }
}

/** Retention goes by another clock than what was asked for. */
async function forgetIfDue(parts: EngineParts, found: ScannedRecord): Promise<boolean> {
  if (found.dueAt === null || found.dueAt > parts.clock.retentionNow()) return false;
  return forget(parts, found);
}

async function sweepClaim(
  parts: EngineParts,
  found: ScannedRecord,
): Promise<'forgotten' | 'doubted' | null> {
  const current = understand(parts, found.id, found);
  const record = current?.record;
  if (record?.state !== 'pending') return null;
  if (isForgettable(record, parts.clock.time())) {
    return (await forget(parts, found)) ? 'forgotten' : null;
  }
  const lapsed = hasLapsed(record, current?.orphaned === true, parts.clock.time().leases);
  if (!lapsed || isReleased(record) || record.onLapse === 'take_over') return null;
  const lost = { record, revision: found.revision };
  const { won } = await recordDoubt(parts, 'sweep', BOUND, found.id, lost, 'lease_lapsed');
  return won ? 'doubted' : null;
}

/**
 * Claims of an earlier life of an embedded store: the process that held them is gone. Run once when the engine starts,
 * so that they are listed as in doubt at once and not when somebody asks.
 */
export async function sweepOrphans(parts: EngineParts): Promise<number> {
  if (parts.store.traits.firstRevisionOfLife === null) return 0;
  let doubted = 0;
  const query = { states: ['pending'], limit: Number.MAX_SAFE_INTEGER } as const;
  for await (const found of bounded(parts, 'sweep', parts.store.scan(query))) {
    if ((await sweepClaim(parts, found)) === 'doubted') doubted += 1;
  }
  return doubted;
}

async function forgetSettled(parts: EngineParts, batch: number): Promise<number> {
  const now = parts.clock.retentionNow();
  const { store } = parts;
  if (store.forgetDue !== undefined) {
    return callStore(parts, 'sweep', BOUND, () => store.forgetDue!(now, batch));
  }
  let forgotten = 0;
  const query = { states: ['committed', 'rejected'], dueBefore: now, limit: batch } as const;
  for await (const found of bounded(parts, 'sweep', store.scan(query))) {
    if (await forget(parts, found)) forgotten += 1;
  }
  return forgotten;
}

/** Enough to tell a backlog from a cleanup that has failed. */
const STALE_COUNTED_AT_MOST = 2_000;

async function countStale(parts: EngineParts): Promise<number> {
  let stale = 0;
  const query = {
    states: ['committed', 'rejected'],
    dueBefore: parts.clock.retentionNow(),
    limit: STALE_COUNTED_AT_MOST,
  } as const;
  for await (const _ of bounded(parts, 'sweep', parts.store.scan(query))) stale += 1;
  return stale;
}

/** A store that falls silent in the midst of a scan must not silence the sweeper, or a list, for good. */
export async function* bounded(
  parts: EngineParts,
  phase: 'read' | 'sweep',
  scan: AsyncIterable<ScannedRecord>,
): AsyncIterable<ScannedRecord> {
  const records = scan[Symbol.asyncIterator]();
  try {
    while (phase === 'read' || !parts.closing.aborted) {
      const next = await callStore(parts, phase, BOUND, () => records.next());
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    // Not awaited: it ends when the call under way does.
    records.return?.().catch(() => {});
  }
}

async function forget(parts: EngineParts, { id, revision }: ScannedRecord): Promise<boolean> {
  return (await swapRecord(parts, 'sweep', BOUND, id, revision, null)).won;
}

/** Sweeps again and again, one pass at a time, until stopped. */
export class Sweeper {
  readonly #parts: EngineParts;
  readonly #everyMs: DurationMs;
  readonly #batch: number;
  #timer: Timer | null = null;
  #pass: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(parts: EngineParts, options: SweepOptions = {}) {
    this.#parts = parts;
    this.#everyMs = options.everyMs ?? 10 * SECOND;
    this.#batch = options.batch ?? 5_000;
  }

  start(): void {
    this.#pass = this.#run(() => sweepOrphans(this.#parts));
    this.#schedule(this.#everyMs);
  }

  /** Resolves when no pass is under way any more. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#pass;
  }

  #schedule(ms: DurationMs): void {
    if (this.#stopped) return;
    this.#timer = this.#parts.world.startTimer(ms, () => {
      this.#pass = this.#pass.then(async () => {
        let behind = false;
        await this.#run(async () => {
          behind = (await sweep(this.#parts, this.#batch)).stale > 0;
        });
        // A backlog is worked off a hundred times as fast, still at a bounded rate.
        this.#schedule(behind ? this.#everyMs / 100 : this.#everyMs);
      });
    });
  }

  async #run(pass: () => Promise<unknown>): Promise<void> {
    try {
      await pass();
    } catch (error) {
      this.#parts.observe({ type: 'store_error', phase: 'sweep', error });
    }
  }
}
