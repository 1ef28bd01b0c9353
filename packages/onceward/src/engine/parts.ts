import type { Current } from './decide.ts';
import type { EngineClock } from './engine-clock.ts';
import { OncewardError, StoreError } from './errors.ts';
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
import type { DurationMs } from './units.ts';
import type { World } from './world.ts';

/** What the pieces of one engine share. */
export interface EngineParts {
  readonly store: RecordStore;
  readonly world: World;
  readonly platform: Platform;
  readonly near: NearTier;
  readonly timers: TimerLines;
  readonly clock: EngineClock;
  readonly late: LateWork;
  /** Claims to take back. Apart, since they stay open for a lease: a settle must not lose its place to them. */
  readonly abandoned: LateWork;
  /** Aborted when the engine is closed: background work ends after the step it is at. */
  readonly closing: AbortSignal;
  readonly observe: Observe;
  readonly audit: Audit;
  /** A new name for an attempt, never given before by any engine. */
  nextOwner(): string;
  /** The same for every attempt of an operation, and for no other operation. */
  downstreamKey(id: OperationId): string;
}

export function understand(
  parts: EngineParts,
  id: OperationId,
  stored: StoredRecord | null,
): Current | null {
  if (stored === null) return null;
  if (!(stored?.bytes instanceof Uint8Array)) throw unsound('a read', stored);
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
): Promise<SwapResult> {
  return callStore(parts, phase, policy, () => soundly(parts.store.swap(id, expected, next)));
}

/** The answer to a swap, if it is one. */
export async function soundly(answer: Promise<SwapResult>): Promise<SwapResult> {
  const result = await answer;
  if (!isSoundSwap(result)) throw unsound('a swap', result);
  return result;
}

/** A mistake in a store must not run an effect: what is no answer counts as none. */
export function isSoundSwap(result: SwapResult): boolean {
  if (result?.won === true) return Number.isSafeInteger(result.revision);
  return result?.won === false && result.current !== undefined;
}

export function unsound(call: string, answer: unknown): StoreError {
  const shown = typeof answer === 'object' ? JSON.stringify(answer)?.slice(0, 200) : String(answer);
  const message = `the store answered ${call} with ${shown}, which is no answer; is it a store of onceward?`;
  return new StoreError('ONCE_STORE_UNAVAILABLE', message);
}

/** Is told once how a swap ended. */
export interface SwapWaiter {
  succeeded(result: SwapResult): void;
  failed(error: unknown): void;
}

/**
 * The same, told to a waiter: at once where nothing has to be waited for, and always in its own async context. Gives
 * the store's own answer, which may come after the waiter was told that it is late.
 */
export function startSwap(
  parts: EngineParts,
  phase: StorePhase,
  policy: Pick<Policy, 'storeTimeoutMs'>,
  id: OperationId,
  expected: Revision | null,
  next: NextRecord | null,
  waiter: SwapWaiter,
): Promise<SwapResult> | null {
  const { store } = parts;
  const call = new BoundCall<SwapResult>(parts, phase, waiter);
  if (store.swapNow === undefined) {
    try {
      const answer = store.swap(id, expected, next);
      call.await(answer);
      call.bound(policy.storeTimeoutMs);
      return answer;
    } catch (error) {
      call.failed(error);
      return null;
    }
  }
  let result: SwapResult;
  try {
    result = store.swapNow(id, expected, next);
  } catch (error) {
    call.failed(error);
    return null;
  }
  call.succeeded(result);
  return null;
}

type CallParts = Pick<EngineParts, 'timers' | 'observe'>;

/**
 * Every call to the store goes through here or `startSwap`: bounded in time, and its failures told. A call that runs
 * out of time has an unknown outcome.
 */
export function callStore<T>(
  parts: CallParts,
  phase: StorePhase,
  policy: Pick<Policy, 'storeTimeoutMs'>,
  make: () => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const call = new BoundCall<T>(parts, phase, { succeeded: resolve, failed: reject });
    try {
      call.await(make());
    } catch (error) {
      call.failed(error);
      return;
    }
    call.bound(policy.storeTimeoutMs);
  });
}

interface Waiter<T> {
  succeeded(value: T): void;
  failed(error: unknown): void;
}

/** A call to the store that somebody waits for, until it answers or its time is up. */
class BoundCall<T> implements Waiter<T>, Due {
  readonly #parts: CallParts;
  readonly #phase: StorePhase;
  #waiter: Waiter<T> | null;
  #ms: DurationMs = 0;
  dueAt: DurationMs = 0;
  isOver = false;

  constructor(parts: CallParts, phase: StorePhase, waiter: Waiter<T>) {
    this.#parts = parts;
    this.#phase = phase;
    this.#waiter = waiter;
  }

  await(answer: Promise<T>): void {
    answer.then(
      (value) => this.succeeded(value),
      (error) => this.failed(error),
    );
  }

  bound(ms: DurationMs): void {
    this.#ms = ms;
    this.#parts.timers.start(ms, this);
  }

  due(): void {
    this.failed(late(this.#ms));
  }

  succeeded(value: T): void {
    this.#end()?.succeeded(value);
  }

  failed(error: unknown): void {
    const waiter = this.#end();
    if (waiter === null) return;
    this.#parts.observe({ type: 'store_error', phase: this.#phase, error });
    waiter.failed(coded(error));
  }

  /** The waiter, the first time. Nothing is held on to: what stays in a queue would keep the whole request alive. */
  #end(): Waiter<T> | null {
    const waiter = this.#waiter;
    this.#waiter = null;
    this.isOver = true;
    return waiter;
  }
}

/** A store that fails in words of its own has failed all the same, and nobody knows whether it wrote. */
function coded(error: unknown): unknown {
  if (error instanceof OncewardError) return error;
  const message = `the store failed: ${error instanceof Error ? error.message : String(error)}`;
  return new StoreError('ONCE_STORE_UNAVAILABLE', message, { cause: error });
}

function late(ms: DurationMs): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', `the store did not answer within ${ms} ms`);
}
