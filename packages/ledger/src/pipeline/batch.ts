import type { World } from 'onceward';
import type { Ticket } from './ticket.ts';

export type BatchKind = 'transactions' | 'writes';

export interface Batch {
  readonly kind: BatchKind;
  readonly tickets: readonly Ticket[];
}

export interface BatcherOptions {
  readonly world: World;
  readonly batchSize: number;
  readonly batchTimeoutMs: number;
  /** The most text in one batch. */
  readonly batchLength: number;
  /** Takes a batch away to be committed. Calls `committed` when the next may follow. */
  readonly commit: (batch: Batch) => void;
}

/** Batches that are being written while the next one fills. */
const DEPTH = 1;

/**
 * Gathers requests. While the log is idle a batch goes as soon as the turn of the event loop is over; while it
 * is busy the next one fills, and goes when the log is free, when it is full, or when its first request has
 * waited long enough.
 */
export class Batcher {
  readonly #options: BatcherOptions;
  readonly #lanes: Record<BatchKind, Ticket[]> = { transactions: [], writes: [] };
  readonly #lengths: Record<BatchKind, number> = { transactions: 0, writes: 0 };
  #committing = 0;
  #isScheduled = false;
  #hasTimer = false;

  constructor(options: BatcherOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#lanes.transactions.length + this.#lanes.writes.length;
  }

  add(kind: BatchKind, ticket: Ticket): void {
    const { batchSize, batchLength } = this.#options;
    if (this.#lengths[kind] + ticket.text.length > batchLength) this.#cut(kind);
    const lane = this.#lanes[kind];
    lane.push(ticket);
    this.#lengths[kind] += ticket.text.length + 1;
    if (lane.length >= batchSize) {
      this.#cut(kind);
    } else if (this.#committing < DEPTH) {
      this.#schedule();
    } else if (!this.#hasTimer) {
      this.#hasTimer = true;
      this.#options.world.startTimer(this.#options.batchTimeoutMs, this.#onTimeout);
    }
  }

  /** A batch has been made durable. */
  committed(): void {
    this.#committing -= 1;
    if (this.#committing < DEPTH) this.#cutAll();
  }

  /** Gives up everything that waits. */
  drop(): readonly Ticket[] {
    return [...this.#lanes.transactions.splice(0), ...this.#lanes.writes.splice(0)];
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#onTurn);
  }

  readonly #onTurn = (): void => {
    this.#isScheduled = false;
    if (this.#committing < DEPTH) this.#cutAll();
  };

  readonly #onTimeout = (): void => {
    this.#hasTimer = false;
    this.#cutAll();
  };

  #cutAll(): void {
    this.#cut('transactions');
    this.#cut('writes');
  }

  #cut(kind: BatchKind): void {
    const tickets = this.#lanes[kind];
    if (tickets.length === 0) return;
    this.#lanes[kind] = [];
    this.#lengths[kind] = 0;
    this.#committing += 1;
    this.#options.commit({ kind, tickets });
  }
}
