import { StoreError } from '../../engine/errors.ts';
import type { SwapResult } from '../../engine/record-store.ts';
import { type DurationMs, MIB } from '../../engine/units.ts';
import { late } from '../call-deadlines.ts';
import { ClaimsGuess } from './claims-guess.ts';
import { canClaimAll, type KeySwap, sizeOf } from './key-swap.ts';
import type { Reply } from './redis-driver.ts';
import { refused } from './redis-link.ts';

export interface SwapBatchesOptions {
  /** 1 where keys of several operations cannot travel together. */
  readonly maxBatch: number;
  readonly timeoutMs: DurationMs;
  /** Claims with a plain command. */
  claim(swap: KeySwap): Promise<Reply>;
  /** Claims all of these keys with a plain command, or none. */
  claimAll(swaps: readonly KeySwap[]): Promise<Reply>;
  /** Runs the swap script once, for all of these. */
  run(swaps: readonly KeySwap[]): Promise<Reply>;
  /** Another value is there than was expected. May throw. */
  judge(swap: KeySwap, found: Reply): SwapResult | Promise<SwapResult>;
}

/** A swap with its pending promise. */
export interface AwaitedSwap extends KeySwap {
  readonly addedAt: DurationMs;
  resolve(result: SwapResult | Promise<SwapResult>): void;
  reject(error: unknown): void;
}

/** What one command carries; Redis does nothing else meanwhile. A single value may exceed it. */
const MAX_BYTES = MIB;
/**
 * So many do not wait for the end of this turn of the event loop. A driver that writes at the end of a turn then writes
 * them in this one, and Redis has them while this process is busy with the next.
 */
const ENOUGH = 8;

/**
 * Swaps that come together share one command: starting a script costs Redis as much as a plain write, and each command
 * costs the driver several promises. Claims take a plain one, on the guess that none of the keys is taken; where one
 * is, and for all else, the script decides each on its own. Unlike with a group commit, nothing waits for the batch
 * before it.
 */
export class SwapBatches {
  readonly #options: SwapBatchesOptions;
  #waiting: AwaitedSwap[] = [];
  #bytes = 0;
  readonly #guess = new ClaimsGuess();
  /** Of the last batch that was answered. */
  #roundTripMs: DurationMs = 0;

  constructor(options: SwapBatchesOptions) {
    this.#options = options;
  }

  add(swap: AwaitedSwap): void {
    if (this.#options.maxBatch === 1) {
      this.#send([swap]);
      return;
    }
    const bytes = sizeOf(swap);
    const { length } = this.#waiting;
    const isFull = length >= this.#options.maxBatch || this.#bytes + bytes > MAX_BYTES;
    if (length > 0 && isFull) this.#flush(performance.now());
    this.#bytes += bytes;
    const count = this.#waiting.push(swap);
    if (count === 1) setImmediate(() => this.#flush(performance.now()));
    // Not at once: what comes in the same breath still joins.
    if (count === ENOUGH) process.nextTick(() => this.#flush(performance.now()));
  }

  #flush(now: DurationMs): void {
    const { timeoutMs } = this.#options;
    const batch: AwaitedSwap[] = [];
    for (const swap of this.#waiting) {
      // The process was frozen in between: the caller has timed out.
      if (now - swap.addedAt > timeoutMs) swap.reject(neverSent(timeoutMs));
      else batch.push(swap);
    }
    this.#waiting = [];
    this.#bytes = 0;
    if (batch.length > 0) this.#send(batch);
  }

  #send(batch: readonly AwaitedSwap[]): void {
    const only = batch[0]!;
    if (batch.length === 1 && only.expected === null) {
      this.#await(
        batch,
        this.#options.claim(only).then((reply) => reply ?? 1),
      );
      return;
    }
    const claims = batch.filter(({ expected }) => expected === null);
    if (!this.#mayClaimAll(claims)) {
      this.#run(batch);
      return;
    }
    this.#claimAll(claims);
    if (claims.length === batch.length) return;
    this.#run(batch.filter(({ expected }) => expected !== null));
  }

  /** Where a key is taken they are sent a second time, and there must be time for that. */
  #mayClaimAll(claims: readonly AwaitedSwap[]): boolean {
    if (claims.length < 2 || this.#roundTripMs > this.#options.timeoutMs / 4) return false;
    return canClaimAll(claims) && this.#guess.begin();
  }

  #claimAll(claims: readonly AwaitedSwap[]): void {
    const sentAt = performance.now();
    this.#options.claimAll(claims).then(
      (reply) => {
        if (reply === 1) {
          this.#guess.wasRight();
          this.#settleAll(claims, 1, sentAt);
        } else {
          this.#guess.wasWrong();
          this.#claimEach(claims, sentAt, doubt);
        }
      },
      (error: unknown) => {
        this.#guess.wasWrong();
        if (isUnavailableCommand(error)) this.#guess.forbid();
        if (isRefused(error)) this.#claimEach(claims, sentAt, fail);
        else for (const { reject } of claims) reject(error);
      },
    );
  }

  /**
   * Together they were refused: one of the keys is taken, or the command is not available. A claim that could not
   * be answered in time is not sent again.
   */
  #claimEach(
    claims: readonly AwaitedSwap[],
    sentAt: DurationMs,
    explain: (error: unknown) => never,
  ): void {
    const limitMs = this.#options.timeoutMs / 2;
    const now = performance.now();
    this.#roundTripMs = now - sentAt;
    const batch: AwaitedSwap[] = [];
    for (const swap of claims) {
      if (now - swap.addedAt > limitMs) swap.reject(late(limitMs, 'unknown'));
      else batch.push(swap);
    }
    if (batch.length > 0) this.#await(batch, this.#options.run(batch).catch(explain));
  }

  #run(batch: readonly AwaitedSwap[]): void {
    this.#await(batch, this.#options.run(batch));
  }

  #await(batch: readonly AwaitedSwap[], replies: Promise<Reply>): void {
    const sentAt = performance.now();
    replies.then(
      (reply) => this.#settleAll(batch, reply, sentAt),
      (error: unknown) => {
        for (const { reject } of batch) reject(error);
      },
    );
  }

  #settleAll(batch: readonly AwaitedSwap[], replies: Reply, sentAt: DurationMs): void {
    const now = performance.now();
    this.#roundTripMs = now - sentAt;
    const each = Array.isArray(replies) ? (replies as Reply[]) : null;
    for (let at = 0; at < batch.length; at += 1) {
      this.#settle(batch[at]!, each === null ? replies : (each[at] ?? null), now);
    }
  }

  #settle(swap: AwaitedSwap, reply: Reply, now: DurationMs): void {
    const { timeoutMs, judge } = this.#options;
    // Its time began before it was sent: a revision must not be believed that was taken long ago.
    if (now - swap.addedAt > timeoutMs) {
      swap.reject(late(timeoutMs, 'unknown'));
      return;
    }
    if (reply === 1) {
      swap.resolve({ won: true, revision: swap.revision });
      return;
    }
    // Drivers give a refusal among several replies as an error object.
    if (reply instanceof Error) {
      swap.reject(refused(reply));
      return;
    }
    try {
      swap.resolve(judge(swap, reply));
    } catch (error) {
      swap.reject(error);
    }
  }
}

/** What lies between us and Redis may send a command twice: what is refused now may have been written before. */
function doubt(error: unknown): never {
  if (!(error instanceof StoreError) || error.applied === 'unknown') throw error;
  throw new StoreError(error.code, error.message, { cause: error, applied: 'unknown' });
}

function fail(error: unknown): never {
  throw error;
}

function isRefused(error: unknown): boolean {
  return error instanceof StoreError && error.applied === 'no';
}

/** A user of Redis may be denied a command, and a proxy may not know it. */
function isUnavailableCommand(error: unknown): boolean {
  return error instanceof StoreError && /NOPERM|unknown command/i.test(error.message);
}

function neverSent(ms: DurationMs): StoreError {
  const message = `the process stood still for ${ms} ms, so the write was not sent`;
  return new StoreError('ONCE_STORE_UNAVAILABLE', message, { applied: 'no' });
}
