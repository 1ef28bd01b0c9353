import { OncewardError, StoreError } from '../errors.ts';
import type { StorePhase } from '../events.ts';
import type { EngineParts } from '../parts.ts';
import type { Current } from '../record/decide.ts';
import { decodeRecord, encodeRecord } from '../record/record-codec.ts';
import { dueAt, type OperationId, type OperationRecord, type Revision } from '../record.ts';
import type { NextRecord, StoredRecord, SwapResult } from '../record-store.ts';
import type { DurationMs } from '../units.ts';
import type { Due } from './timer-lines.ts';

/**
 * Every call to the store goes through here: records in, records out, bounded in time, and its failures emitted. A
 * call that runs out of time has an unknown outcome.
 */

/** How long a call may take. */
export interface Bound {
  readonly storeTimeoutMs: DurationMs;
}

/** A swap that lost says what is there. */
export type Swapped =
  | { readonly won: true; readonly revision: Revision }
  | { readonly won: false; readonly current: Current | null };

export async function readRecord(
  parts: EngineParts,
  bound: Bound,
  id: OperationId,
): Promise<Current | null> {
  return understand(parts, id, await callStore(parts, 'read', bound, () => parts.store.read(id)));
}

export async function swapRecord(
  parts: EngineParts,
  phase: StorePhase,
  bound: Bound,
  id: OperationId,
  expected: Revision | null,
  record: OperationRecord | null,
): Promise<Swapped> {
  const next = record === null ? null : prepare(id, record);
  const result = await callStore(parts, phase, bound, () =>
    soundly(parts.store.swap(id, expected, next)),
  );
  return result.won ? result : { won: false, current: understand(parts, id, result.current) };
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

/** The answer to a swap, if it is one. */
export async function soundly(answer: Promise<SwapResult>): Promise<SwapResult> {
  const result = await answer;
  if (!isSoundSwap(result)) throw unsound('a swap', result);
  return result;
}

/** A mistake in a store must not run an effect: what is no answer counts as none. */
function isSoundSwap(result: SwapResult): boolean {
  if (result?.won === true) return Number.isSafeInteger(result.revision);
  return result?.won === false && result.current !== undefined;
}

function unsound(call: string, answer: unknown): StoreError {
  const shown = typeof answer === 'object' ? JSON.stringify(answer)?.slice(0, 200) : String(answer);
  const message = `the store answered ${call} with ${shown}, which is no answer; is it a store of onceward?`;
  return new StoreError('ONCE_STORE_UNAVAILABLE', message);
}

/** Called once, with how the call ended. */
export interface Waiter<T> {
  succeeded(value: T): void;
  failed(error: unknown): void;
}

/**
 * A swap that calls back: at once where nothing has to be waited for, and always in the waiter's own async context.
 * Returns the store's own answer, which may come after the waiter was called because it is late.
 */
export function startSwap(
  parts: EngineParts,
  phase: StorePhase,
  bound: Bound,
  id: OperationId,
  expected: Revision | null,
  next: NextRecord | null,
  waiter: Waiter<SwapResult>,
): Promise<SwapResult> | null {
  const { store } = parts;
  const call = new SwapCall(parts, phase, waiter);
  if (store.swapNow === undefined) {
    try {
      const answer = store.swap(id, expected, next);
      call.await(answer);
      call.bound(bound.storeTimeoutMs);
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

export function callStore<T>(
  parts: CallParts,
  phase: StorePhase,
  bound: Bound,
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
    call.bound(bound.storeTimeoutMs);
  });
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

class SwapCall extends BoundCall<SwapResult> {
  override succeeded(result: SwapResult): void {
    if (isSoundSwap(result)) super.succeeded(result);
    else this.failed(unsound('a swap', result));
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
