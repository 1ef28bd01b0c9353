import { StoreError, type World } from 'onceward';
import type { BlockBook } from '../blocks/block-book.ts';
import { LIMITS } from '../limits.ts';
import type { LedgerLog } from '../log/ledger-log.ts';
import type { LogEntry, MachineSettings } from '../log/log-entry.ts';
import type { Request } from '../rules/request.ts';
import { requestText } from '../rules/request-text.ts';
import { applyEntry } from './apply/apply.ts';
import { Batcher, type BatchKind } from './batch.ts';
import { Committer } from './commit.ts';
import type { Machine } from './machine.ts';
import { sealBlock } from './seal.ts';
import { Ticket, type TicketEnd } from './ticket.ts';

export interface PipelineOptions {
  readonly world: World;
  readonly log: LedgerLog;
  readonly machine: Machine;
  readonly book: BlockBook;
  readonly term: number;
  /** What the barrier says was answered: as much as the last process knew, if this one ends with it. */
  readonly answered: number;
  readonly batchSize: number;
  readonly batchTimeoutMs: number;
  /** Called after each entry that was applied, with the length of its text. */
  readonly applied: (byteLength: number) => void;
}

/** More than all of an entry that is not requests. */
const ENTRY_HEAD_LENGTH = 1_024;

/**
 * batch → commit → apply → seal → answer. Requests come in admitted and leave with their outcome; each stage is
 * a file of its own, and this one only joins them.
 */
export class Pipeline {
  readonly #options: PipelineOptions;
  readonly #batcher: Batcher;
  readonly #committer: Committer;
  readonly #idle: (() => void)[] = [];
  #barrier: { resolve(): void; reject(error: unknown): void } | undefined;
  #inFlight = 0;
  /** How long the texts of all requests in flight are together. */
  #length = 0;
  #failure: unknown;
  #isClosed = false;

  constructor(options: PipelineOptions) {
    this.#options = options;
    const { world, log, machine, term, batchSize, batchTimeoutMs } = options;
    const { height } = machine;
    this.#committer = new Committer({
      world,
      log,
      term,
      lastIndex: height,
      answered: () => (machine.height > height ? machine.height : options.answered),
      durable: this.#durable,
      failed: (error, tickets) => this.stop(error, tickets),
    });
    this.#batcher = new Batcher({
      world,
      batchSize,
      batchTimeoutMs,
      batchLength: log.maxEntryLength - ENTRY_HEAD_LENGTH,
      commit: ({ kind, tickets }) => {
        const requests = tickets.map(({ request }) => request);
        const texts = tickets.map(({ text }) => text);
        this.#committer.append({ kind, requests, texts }, tickets);
      },
    });
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get failure(): unknown {
    return this.#failure;
  }

  get isFull(): boolean {
    return this.#inFlight >= LIMITS.inFlight || this.#length >= LIMITS.inFlightLength;
  }

  /** Throws if the ledger has stopped. */
  submit(kind: BatchKind, request: Request, end: TicketEnd): void {
    if (this.#failure !== undefined) throw notApplied(this.#failure);
    if (this.#isClosed) throw notApplied(new Error('The ledger has been closed. Open it again.'));
    const text = requestText(request);
    this.#inFlight += 1;
    this.#length += text.length;
    this.#batcher.add(kind, new Ticket(request, text, end));
  }

  /**
   * The first entry of a term: when it has been applied, so has everything before it. That of a new ledger brings
   * the settings.
   */
  barrier(settings?: MachineSettings): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#barrier = { resolve, reject };
      this.#committer.append({ kind: 'barrier', ...(settings && { settings }) }, []);
    });
  }

  /** Takes nothing more, and resolves when nothing is in flight any more. */
  async drain(): Promise<void> {
    this.#isClosed = true;
    if (this.#inFlight === 0) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Nothing more is taken; what is in flight fails, and its callers cannot know whether it happened. */
  stop(error: unknown, tickets: readonly Ticket[] = []): void {
    this.#failure ??= error;
    const lost = [...tickets, ...this.#batcher.drop()];
    this.#leave(lost);
    for (const { end } of lost) end.fail(error);
    this.#barrier?.reject(error);
    this.#notifyIdle();
  }

  readonly #durable = (entry: LogEntry, tickets: readonly Ticket[], byteLength: number): void => {
    if (this.#failure !== undefined) {
      this.stop(this.#failure, tickets);
      return;
    }
    // First the next batch goes to the disk, which then works while this one is applied.
    if (entry.kind !== 'barrier') this.#batcher.committed();
    try {
      this.#apply(entry, tickets);
    } catch (error) {
      this.stop(error, tickets);
      return;
    }
    this.#options.applied(byteLength);
  };

  #apply(entry: LogEntry, tickets: readonly Ticket[]): void {
    const { machine, book } = this.#options;
    const applied = applyEntry(machine, entry);
    const block = sealBlock(machine, applied, book.tipHash);
    book.add(block);
    this.#leave(tickets);
    for (let at = 0; at < tickets.length; at += 1) {
      const outcome = applied.outcomes[at];
      if (outcome !== undefined) (tickets[at] as Ticket).end.settle(outcome, block);
    }
    if (entry.kind === 'barrier') this.#barrier?.resolve();
    this.#notifyIdle();
  }

  #leave(tickets: readonly Ticket[]): void {
    this.#inFlight -= tickets.length;
    for (const { text } of tickets) this.#length -= text.length;
  }

  #notifyIdle(): void {
    if (this.#inFlight > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}

function notApplied(failure: unknown): StoreError {
  const message = failure instanceof Error ? failure.message : String(failure);
  const code = failure instanceof StoreError ? failure.code : 'ONCE_STORE_FAILED';
  return new StoreError(code, message, { cause: failure, applied: 'no' });
}
