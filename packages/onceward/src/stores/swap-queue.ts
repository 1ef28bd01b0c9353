import type { DurationMs } from '../engine/units.ts';
import { CallDeadlines, late, type TimedCall } from './call-deadlines.ts';

export interface SwapQueueOptions<Item, Result> {
  /** How many batches may be in flight at once. */
  readonly lanes: number;
  /** How many calls must wait before a batch sets out beside another; 1 by default. */
  readonly besideFrom?: number;
  readonly maxBatch: number;
  /** With `maxBytes`: how much a batch may carry. A single item may exceed it. */
  bytesOf?(item: Item): number;
  readonly maxBytes?: number;
  readonly timeoutMs: DurationMs;
  /** Results in the order of the items. A batch that fails fails all its items. */
  run(items: readonly Item[], lane: number): Promise<readonly Result[]>;
}

class Entry<Item, Result> implements TimedCall {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
  readonly #timeoutMs: DurationMs;
  endsAt = 0;
  isOpen = true;
  isSent = false;

  constructor(
    item: Item,
    timeoutMs: DurationMs,
    resolve: (result: Result) => void,
    reject: (error: unknown) => void,
  ) {
    this.item = item;
    this.#timeoutMs = timeoutMs;
    this.resolve = resolve;
    this.reject = reject;
  }

  expire(): void {
    this.reject(late(this.#timeoutMs, this.isSent ? 'unknown' : 'no'));
  }
}

/**
 * Group commit: what arrives while a batch is in flight waits for the next one, so the busier the store, the more
 * calls share one durable write. What has waited too long is never sent.
 */
export class SwapQueue<Item, Result> {
  readonly #options: SwapQueueOptions<Item, Result>;
  readonly #deadlines: CallDeadlines;
  readonly #freeLanes: number[];
  #waiting: Entry<Item, Result>[] = [];
  #scheduled = false;

  constructor(options: SwapQueueOptions<Item, Result>) {
    this.#options = options;
    this.#deadlines = new CallDeadlines(options.timeoutMs);
    this.#freeLanes = Array.from({ length: options.lanes }, (_, lane) => lane);
  }

  add(item: Item): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      const entry = new Entry(item, this.#options.timeoutMs, resolve, reject);
      this.#waiting.push(entry);
      this.#deadlines.start(entry);
      this.#schedule();
    });
  }

  /** After the current turn of the event loop, so that calls made together travel together. */
  #schedule(): void {
    const { lanes, besideFrom = 1 } = this.#options;
    const enough = this.#freeLanes.length === lanes ? 1 : besideFrom;
    if (this.#scheduled || this.#freeLanes.length === 0 || this.#waiting.length < enough) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      // The first again and again while one is enough: its backend has warm caches.
      this.#freeLanes.sort((a, b) => b - a);
      const lane = this.#freeLanes.pop();
      if (lane === undefined) return;
      void this.#runLane(lane);
    });
  }

  /** How many of those that wait go into the next batch. */
  #nextLength(): number {
    const { maxBatch, bytesOf, maxBytes } = this.#options;
    const most = Math.min(maxBatch, this.#waiting.length);
    if (bytesOf === undefined || maxBytes === undefined) return most;
    let bytes = 0;
    for (let at = 0; at < most; at += 1) {
      bytes += bytesOf((this.#waiting[at] as Entry<Item, Result>).item);
      if (bytes > maxBytes) return Math.max(1, at);
    }
    return most;
  }

  async #runLane(lane: number): Promise<void> {
    const batch = this.#waiting.splice(0, this.#nextLength()).filter((one) => one.isOpen);
    this.#schedule();
    if (batch.length > 0) {
      for (const entry of batch) entry.isSent = true;
      try {
        const items = batch.map((entry) => entry.item);
        const results = await this.#options.run(items, lane);
        for (let at = 0; at < batch.length; at += 1) {
          const entry = batch[at] as Entry<Item, Result>;
          if (this.#deadlines.endInTime(entry)) entry.resolve(results[at] as Result);
        }
      } catch (error) {
        for (const entry of batch) if (this.#deadlines.endInTime(entry)) entry.reject(error);
      }
    }
    this.#freeLanes.push(lane);
    this.#schedule();
  }
}
