import { StoreError } from '../../engine/errors.ts';
import { type DurationMs, MIB } from '../../engine/units.ts';
import type { Argument, Reply } from './redis-driver.ts';
import { refused } from './redis-link.ts';

export interface SwapBatchesOptions {
  /** 1 where keys of several operations cannot travel together. */
  readonly maxBatch: number;
  readonly timeoutMs: DurationMs;
  /** Runs the swap script once, for all these keys. */
  run(keys: string[], args: Argument[]): Promise<Reply>;
}

/** What one call of the script carries; Redis does nothing else meanwhile. A single value may exceed it. */
const MAX_BYTES = MIB;

interface Entry {
  readonly key: string;
  readonly head: string;
  readonly value: Argument;
  readonly lifetime: string;
  readonly addedAt: DurationMs;
  resolve(reply: Reply): void;
  reject(error: unknown): void;
}

/**
 * Swaps that come together share one call of the script: starting a script costs Redis as much as a plain write. Unlike
 * with a group commit, nothing waits for the batch before it.
 */
export class SwapBatches {
  readonly #options: SwapBatchesOptions;
  #waiting: Entry[] = [];
  #bytes = 0;

  constructor(options: SwapBatchesOptions) {
    this.#options = options;
  }

  /** `lifetime`: in milliseconds, or nothing. */
  add(key: string, head: string, value: Argument, lifetime: string): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const addedAt = performance.now();
      const entry = { key, head, value, lifetime, addedAt, resolve, reject };
      if (this.#options.maxBatch === 1) {
        this.#send([entry]);
        return;
      }
      this.#bytes += value.length;
      const { length } = this.#waiting;
      if (length > 0 && (length === this.#options.maxBatch || this.#bytes > MAX_BYTES)) {
        this.#flush();
        this.#bytes = value.length;
      }
      if (this.#waiting.push(entry) === 1) setImmediate(() => this.#flush());
    });
  }

  #flush(): void {
    const { timeoutMs } = this.#options;
    const now = performance.now();
    const batch: Entry[] = [];
    this.#bytes = 0;
    for (const entry of this.#waiting.splice(0)) {
      // The process was frozen in between: whoever asked has left.
      if (now - entry.addedAt > timeoutMs) entry.reject(neverSent(timeoutMs));
      else batch.push(entry);
    }
    if (batch.length > 0) this.#send(batch);
  }

  #send(batch: readonly Entry[]): void {
    const keys: string[] = [];
    const args: Argument[] = [];
    for (const { key, head, value, lifetime } of batch) {
      keys.push(key);
      args.push(head, value, lifetime);
    }
    this.#options.run(keys, args).then(
      (replies) => {
        for (const [at, entry] of batch.entries()) settle(entry, (replies as Reply[])[at]);
      },
      (error: unknown) => {
        for (const entry of batch) entry.reject(error);
      },
    );
  }
}

/** Drivers give a refusal among several replies as an error object. */
function settle(entry: Entry, reply: Reply | undefined): void {
  if (reply instanceof Error) entry.reject(refused(reply));
  else entry.resolve(reply ?? null);
}

function neverSent(ms: DurationMs): StoreError {
  const message = `the process stood still for ${ms} ms, so the write was not sent`;
  return new StoreError('ONCE_STORE_UNAVAILABLE', message, { applied: 'no' });
}
