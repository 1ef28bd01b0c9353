import { StoreError, type World } from 'onceward';
import type { LedgerLog } from '../log/ledger-log.ts';
import { encodeEntry, type LogEntry } from '../log/log-entry.ts';
import type { Ticket } from './ticket.ts';

export interface CommitterOptions {
  readonly world: World;
  readonly log: LedgerLog;
  readonly term: number;
  /** The index of the last entry that is in the log. */
  readonly lastIndex: number;
  /** The index up to which all requests have been answered. */
  readonly answered: () => number;
  /** Called for each entry in order, when it is durable. */
  readonly durable: (entry: LogEntry, tickets: readonly Ticket[], byteLength: number) => void;
  /** Called once, when the log can no longer be trusted to take entries. */
  readonly failed: (error: unknown, tickets: readonly Ticket[]) => void;
}

interface Pending {
  readonly entry: LogEntry;
  readonly tickets: readonly Ticket[];
  readonly text: string;
  readonly appending: Promise<void>;
}

type Draft<E> = E extends LogEntry ? Omit<E, 'index' | 'term' | 'at' | 'answered'> : never;

/** Puts entries into the log, several at once if need be, and hands them on in order as they become durable. */
export class Committer {
  readonly #options: CommitterOptions;
  readonly #queue: Pending[] = [];
  #lastIndex: number;
  #isPumping = false;
  #failure: unknown;

  constructor(options: CommitterOptions) {
    this.#options = options;
    this.#lastIndex = options.lastIndex;
  }

  get pending(): number {
    return this.#queue.length;
  }

  append(draft: Draft<LogEntry>, tickets: readonly Ticket[]): void {
    if (this.#failure !== undefined) {
      for (const { end } of tickets) end.fail(this.#failure);
      return;
    }
    const { world, term, answered } = this.#options;
    this.#lastIndex += 1;
    const head = { index: this.#lastIndex, term, at: world.now(), answered: answered() };
    const entry = { ...head, ...draft } as LogEntry;
    const text = encodeEntry(entry);
    const appending = this.#append(entry, text);
    // It is awaited in its turn; until then a failure must not count as unhandled.
    appending.catch(() => {});
    this.#queue.push({ entry, tickets, text, appending });
    if (!this.#isPumping) void this.#pump();
  }

  async #append(entry: LogEntry, text: string): Promise<void> {
    const { log } = this.#options;
    const { index, term } = entry;
    try {
      const result = await log.append({ index, term, text });
      if (!result.appended) throw lostTerm(result.term);
    } catch (error) {
      if (error instanceof StoreError && error.applied === 'no') throw error;
      // The reply is lost, not necessarily the entry: what is at its index decides. If that cannot be read either,
      // the outcome is as open as before, whatever is said of the read.
      const found = await readAt(log, index).catch(() => undefined);
      if (found !== text) throw error;
    }
  }

  async #pump(): Promise<void> {
    this.#isPumping = true;
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      try {
        await next.appending;
      } catch (error) {
        this.#failure = error;
        const lost = this.#queue.splice(0);
        this.#options.failed(
          error,
          lost.flatMap(({ tickets }) => tickets),
        );
        break;
      }
      this.#queue.shift();
      this.#options.durable(next.entry, next.tickets, next.text.length);
    }
    this.#isPumping = false;
  }
}

async function readAt(log: LedgerLog, index: number): Promise<string | undefined> {
  for await (const record of log.read(index))
    return record.index === index ? record.text : undefined;
  return undefined;
}

function lostTerm(term: number): StoreError {
  return new StoreError(
    'ONCE_STORE_FAILED',
    `Another leader writes this ledger's log (term ${term}). This one has stopped; ask the other.`,
    { applied: 'no' },
  );
}
