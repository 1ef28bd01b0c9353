import { StoreError } from '../../engine/errors.ts';
import type { SwapResult } from '../../engine/record-store.ts';
import { type DurationMs, MIB } from '../../engine/units.ts';
import { late } from '../call-deadlines.ts';
import { type KeySwap, packedLength, packSwaps } from './packed-swaps.ts';
import type { Reply } from './redis-driver.ts';
import { refused } from './redis-link.ts';

export interface SwapBatchesOptions {
  /** 1 where keys of several operations cannot travel together. */
  readonly maxBatch: number;
  readonly timeoutMs: DurationMs;
  /** Claims with a plain command. */
  claim(swap: KeySwap): Promise<Reply>;
  /** Runs the swap script once, for all these keys. */
  run(keys: readonly string[], packed: Buffer): Promise<Reply>;
  /** Another value is there than was expected. May throw. */
  judge(swap: KeySwap, found: Reply): SwapResult | Promise<SwapResult>;
}

interface Entry {
  readonly swap: KeySwap;
  readonly addedAt: DurationMs;
  resolve(result: SwapResult | Promise<SwapResult>): void;
  reject(error: unknown): void;
}

/** What one call of the script carries; Redis does nothing else meanwhile. A single value may exceed it. */
const MAX_BYTES = MIB;
/**
 * So many do not wait for the end of this turn of the event loop. A driver that writes at the end of a turn then writes
 * them in this one, and Redis has them while this process is busy with the next.
 */
const ENOUGH = 8;

/**
 * Swaps that come together share one call of the script: starting a script costs Redis as much as a plain write, and
 * each command costs the driver several promises. Unlike with a group commit, nothing waits for the batch before it.
 */
export class SwapBatches {
  readonly #options: SwapBatchesOptions;
  #waiting: Entry[] = [];
  #bytes = 0;

  constructor(options: SwapBatchesOptions) {
    this.#options = options;
  }

  add(swap: KeySwap, now: DurationMs): Promise<SwapResult> {
    return new Promise((resolve, reject) => {
      const entry = { swap, addedAt: now, resolve, reject };
      if (this.#options.maxBatch === 1) {
        this.#send([entry]);
        return;
      }
      const bytes = packedLength(swap);
      const { length } = this.#waiting;
      const isFull = length >= this.#options.maxBatch || this.#bytes + bytes > MAX_BYTES;
      if (length > 0 && isFull) this.#flush(now);
      this.#bytes += bytes;
      const count = this.#waiting.push(entry);
      if (count === 1) setImmediate(() => this.#flush(performance.now()));
      // Not at once: what comes in the same breath still joins.
      if (count === ENOUGH) process.nextTick(() => this.#flush(performance.now()));
    });
  }

  #flush(now: DurationMs): void {
    const { timeoutMs } = this.#options;
    const batch: Entry[] = [];
    for (const entry of this.#waiting) {
      // The process was frozen in between: whoever asked has left.
      if (now - entry.addedAt > timeoutMs) entry.reject(neverSent(timeoutMs));
      else batch.push(entry);
    }
    this.#waiting = [];
    this.#bytes = 0;
    if (batch.length > 0) this.#send(batch);
  }

  #send(batch: readonly Entry[]): void {
    const only = batch[0]!;
    if (batch.length === 1 && only.swap.expected === null) {
      this.#options.claim(only.swap).then(
        (reply) => this.#settle(only, reply ?? 1, performance.now()),
        (error: unknown) => only.reject(error),
      );
      return;
    }
    const swaps = batch.map(({ swap }) => swap);
    const keys = swaps.map(({ key }) => key);
    this.#options.run(keys, packSwaps(swaps)).then(
      (replies) => {
        const now = performance.now();
        const each = Array.isArray(replies) ? (replies as Reply[]) : null;
        for (let at = 0; at < batch.length; at += 1) {
          this.#settle(batch[at]!, each === null ? replies : (each[at] ?? null), now);
        }
      },
      (error: unknown) => {
        for (const { reject } of batch) reject(error);
      },
    );
  }

  #settle({ swap, addedAt, resolve, reject }: Entry, reply: Reply, now: DurationMs): void {
    const { timeoutMs, judge } = this.#options;
    // Its time began before it was sent: a revision must not be believed that was taken long ago.
    if (now - addedAt > timeoutMs) {
      reject(late(timeoutMs, 'unknown'));
      return;
    }
    if (reply === 1) {
      resolve({ won: true, revision: swap.revision });
      return;
    }
    // Drivers give a refusal among several replies as an error object.
    if (reply instanceof Error) {
      reject(refused(reply));
      return;
    }
    try {
      resolve(judge(swap, reply));
    } catch (error) {
      reject(error);
    }
  }
}

function neverSent(ms: DurationMs): StoreError {
  const message = `the process stood still for ${ms} ms, so the write was not sent`;
  return new StoreError('ONCE_STORE_UNAVAILABLE', message, { applied: 'no' });
}
