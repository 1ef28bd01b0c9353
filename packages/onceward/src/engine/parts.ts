import type { Current, Time } from './decide.ts';
import { StoreError } from './errors.ts';
import type { Audit, Observe, StorePhase } from './events.ts';
import type { LateWork } from './late-work.ts';
import type { NearTier } from './near-tier.ts';
import type { Platform } from './platform.ts';
import type { Policy } from './policy.ts';
import type { OperationId, OperationRecord, Revision } from './record.ts';
import { dueAt } from './record.ts';
import { decodeRecord, encodeRecord } from './record-codec.ts';
import type { NextRecord, RecordStore, StoredRecord, SwapResult } from './record-store.ts';
import type { Due, TimerLines } from './timer-lines.ts';
import type { DurationMs, EpochMs } from './units.ts';
import type { World } from './world.ts';

/** What the pieces of one engine share. */
export interface EngineParts {
  readonly store: RecordStore;
  readonly world: World;
  readonly platform: Platform;
  readonly near: NearTier;
  readonly timers: TimerLines;
  readonly late: LateWork;
  readonly observe: Observe;
  readonly audit: Audit;
  /** A new name for an attempt, never given before by any engine. */
  nextOwner(): string;
  time(): Time;
  /** The same for every attempt of an operation, and for no other operation. */
  downstreamKey(id: OperationId): string;
}

/** Retention goes by this: a wall clock that jumps ahead does not make answers vanish. */
export function retentionNow(parts: EngineParts): EpochMs {
  const time = parts.time();
  return Math.min(time.wall, time.steady);
}

/**
 * Retention starts here: by the later of the two clocks, so that a wall clock that jumped back does not make an answer
 * end early for everybody whose clock did not.
 */
export function settlingNow(parts: EngineParts): EpochMs {
  const time = parts.time();
  return Math.max(time.wall, time.steady);
}

export function understand(
  parts: EngineParts,
  id: OperationId,
  stored: StoredRecord | null,
): Current | null {
  if (stored === null) return null;
  const record = decodeRecord(id, stored.bytes);
  if (record === null) parts.observe({ type: 'unreadable', id });
  const born = parts.store.traits.firstRevisionOfLife;
  return { revision: stored.revision, record, orphaned: born !== null && stored.revision < born };
}

export function prepare(id: OperationId, record: OperationRecord): NextRecord {
  return { bytes: encodeRecord(id, record), state: record.state, dueAt: dueAt(record) };
}

/** A swap in the engine's own store, as `callStore` makes its calls. */
export function swapRecord(
  parts: EngineParts,
  phase: StorePhase,
  policy: Pick<Policy, 'storeTimeoutMs'>,
  id: OperationId,
  expected: Revision | null,
  next: NextRecord | null,
): SwapResult | Promise<SwapResult> {
  const { store } = parts;
  if (store.swapNow === undefined) {
    return callStore(parts, phase, policy, () => store.swap(id, expected, next));
  }
  try {
    return store.swapNow(id, expected, next);
  } catch (error) {
    parts.observe({ type: 'store_error', phase, error });
    throw error;
  }
}

/**
 * Every call to the store goes through here: bounded in time, and its failures told. A call that runs out of time
 * has an unknown outcome.
 */
export function callStore<T>(
  parts: EngineParts,
  phase: StorePhase,
  policy: Pick<Policy, 'storeTimeoutMs'>,
  call: () => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const bound = new BoundCall(parts, phase, policy.storeTimeoutMs, resolve, reject);
    call().then(
      (value) => bound.succeed(value),
      (error) => bound.fail(error),
    );
  });
}

/** A call to the store that somebody waits for, until it answers or its time is up. */
class BoundCall<T> {
  readonly #parts: EngineParts;
  readonly #phase: StorePhase;
  readonly #resolve: (value: T) => void;
  readonly #reject: (error: unknown) => void;
  readonly #due: Due;

  constructor(
    parts: EngineParts,
    phase: StorePhase,
    ms: DurationMs,
    resolve: (value: T) => void,
    reject: (error: unknown) => void,
  ) {
    this.#parts = parts;
    this.#phase = phase;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#due = parts.timers.start(ms, () => this.#tell(late(ms)));
  }

  succeed(value: T): void {
    this.#due.call = null;
    this.#resolve(value);
  }

  fail(error: unknown): void {
    if (this.#due.call === null) return;
    this.#due.call = null;
    this.#tell(error);
  }

  #tell(error: unknown): void {
    this.#parts.observe({ type: 'store_error', phase: this.#phase, error });
    this.#reject(error);
  }
}

function late(ms: DurationMs): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', `the store did not answer within ${ms} ms`);
}
