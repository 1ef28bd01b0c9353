import type { DurationMs } from '../engine/units.ts';
import { CallDeadlines } from './call-deadlines.ts';

export interface SwapQueueOptions<Item, Result> {
  /** How many batches may be under way at once. */
  readonly lanes: number;
  /** How many calls must wait before a batch sets out beside another; 1 unless told. */
  readonly besideFrom?: number;
  readonly maxBatch: number;
  /** With `maxBytes`: how much a batch may carry. A single item may exceed it. */
  bytesOf?(item: Item): number;
  readonly maxBytes?: number;
  readonly timeoutMs: DurationMs;
  /** Results in the order of the items. A batch that fails fails all its items. */
  run(items: readonly Item[], lane: number): Promise<readonly Result[]>;
}

interface Entry<Item, Result> {
  readonly item: Item;
  sent: boolean;
  givenUp: boolean;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

/**
 * Group commit: what arrives while a batch is under way waits for the next one, so the busier the store, the more
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
    let entry: Entry<Item, Result> | null = null;
    const result = new Promise<Result>((resolve, reject) => {
      entry = { item, sent: false, givenUp: false, resolve, reject };
      this.#waiting.push(entry);
    });
    const added = entry as unknown as Entry<Item, Result>;
    this.#schedule();
    return this.#deadlines.bound(
      result,
      (cause) => cause,
      () => {
        added.givenUp = true;
        return added.sent ? 'unknown' : 'no';
      },
    );
  }

  /** After the current turn of the event loop, so that calls made together travel together. */
  #schedule(): void {
    const { lanes, besideFrom = 1 } = this.#options;
    const enough = this.#freeLanes.length === lanes ? 1 : besideFrom;
    if (this.#scheduled || this.#freeLanes.length === 0 || this.#waiting.length < enough) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
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
    const batch = this.#waiting.splice(0, this.#nextLength()).filter((one) => !one.givenUp);
    this.#schedule();
    if (batch.length > 0) {
      for (const entry of batch) entry.sent = true;
      try {
        const items = batch.map((entry) => entry.item);
        const results = await this.#options.run(items, lane);
        for (const [at, entry] of batch.entries()) entry.resolve(results[at] as Result);
      } catch (error) {
        for (const entry of batch) entry.reject(error);
      }
    }
    this.#freeLanes.push(lane);
    this.#schedule();
  }
}
