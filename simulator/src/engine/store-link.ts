import type {
  NextRecord,
  OperationId,
  RecordStore,
  Revision,
  ScannedRecord,
  ScanQuery,
  StoreCount,
  StoredRecord,
  StoreTraits,
  SwapResult,
  TransactionalStore,
} from 'onceward';
import { copyOf, type Kept, refuseTooLarge } from './record-table.ts';
import { type DatabaseParts, Transaction } from './transaction.ts';

/** So few that a world of three operations takes more than one pass. */
const SHARE = 2;
const LOST_TO_NOBODY: SwapResult = { won: false, current: null };

/** The store as one life of a process sees it: over a network that delays, loses and repeats itself. */
export class StoreLink implements TransactionalStore<Transaction> {
  readonly traits: StoreTraits;
  readonly forgetDue?: NonNullable<RecordStore['forgetDue']>;
  readonly scanDue?: NonNullable<RecordStore['scanDue']>;
  readonly clock?: NonNullable<RecordStore['clock']>;
  readonly changed?: NonNullable<RecordStore['changed']>;
  readonly #parts: DatabaseParts;
  /** Where the next share begins. */
  #scanned = 0;

  constructor(parts: DatabaseParts) {
    this.#parts = parts;
    const { plan, life } = parts;
    this.traits = {
      name: 'simulated',
      durability: 'machine',
      maxRecordBytes: plan.maxRecordBytes,
      firstRevisionOfLife: life.firstRevision,
    };
    if (plan.forgetsDue) this.forgetDue = (now, limit) => this.#forgetDue(now, limit);
    if (plan.scansShares) this.scanDue = (now, limit) => this.#scanDue(now, limit);
    if (plan.hasClock) this.clock = () => this.#clock();
    if (plan.wakesWaiters) this.changed = (id, seen, signal) => this.#changed(id, seen, signal);
  }

  read(id: OperationId): Promise<StoredRecord | null> {
    const { network, life, table } = this.#parts;
    const spoilt = spoiltForm(table.get(id));
    return network.call<StoredRecord | null>(life, (reply) => reply(copyOf(table.get(id))), spoilt);
  }

  swap(id: OperationId, expected: Revision | null, next: NextRecord | null): Promise<SwapResult> {
    const { network, life, table, locks, file } = this.#parts;
    const tooLarge = refuseTooLarge(next, this.traits);
    if (tooLarge !== null) return Promise.reject(tooLarge);
    const nonsense = expected === null ? LOST_TO_NOBODY : undefined;
    return network.call<SwapResult>(
      life,
      (reply) => {
        const write = () => {
          // Somebody may have taken the row while the file was busy.
          if (locks.isHeld(id)) locks.whenFree(id, null, () => file.whenFree(write));
          else reply(table.swap(life, id, expected, next));
        };
        file.whenFree(write);
      },
      nonsense,
    );
  }

  async *scan(query: ScanQuery): AsyncIterable<ScannedRecord> {
    const { network, life, table } = this.#parts;
    const spoilt = table.scan(query).map((kept) => ({ ...kept, ...spoiltForm(kept) }));
    yield* await network.call<readonly Kept[]>(life, (reply) => reply(table.scan(query)), spoilt);
  }

  count(): Promise<StoreCount> {
    const { network, life, table } = this.#parts;
    return network.call(life, (reply) => {
      const count = { pending: 0, committed: 0, rejected: 0, in_doubt: 0 };
      for (const { state } of table.scan({ limit: Infinity })) count[state] += 1;
      reply(count);
    });
  }

  async close(): Promise<void> {}

  within(transaction: Transaction): RecordStore {
    return transaction.records(this.traits);
  }

  /** Commits when `work` resolves, rolls back when it rejects. The reply to the commit can be lost, too. */
  readonly transact = async <T>(work: (tx: Transaction) => Promise<T>): Promise<T> => {
    const transaction = new Transaction(this.#parts);
    let result: T;
    try {
      result = await transaction.inTime(work(transaction));
    } catch (error) {
      await transaction.rollBack();
      throw error;
    }
    await transaction.commit();
    return result;
  };

  #forgetDue(now: number, limit: number): Promise<number> {
    const { network, life, table, locks } = this.#parts;
    return network.call(life, (reply) => {
      const due = table
        .scan({ states: ['committed', 'rejected'], dueBefore: now, limit })
        .filter(({ id }) => !locks.isHeld(id));
      for (const { id, revision } of due) table.swap(life, id, revision, null);
      reply(due.length);
    });
  }

  async *#scanDue(now: number, limit: number): AsyncIterable<ScannedRecord> {
    const { network, life, table } = this.#parts;
    yield* await network.call<readonly Kept[]>(life, (reply) => {
      const all = table.scan({ limit: Infinity });
      const share = all.slice(this.#scanned, this.#scanned + SHARE);
      this.#scanned = this.#scanned + SHARE < all.length ? this.#scanned + SHARE : 0;
      const isLookedFor = ({ state }: Kept) =>
        state === 'pending' || (state !== 'in_doubt' && this.forgetDue === undefined);
      const due = share.filter((kept) => isLookedFor(kept) && (kept.dueAt ?? Infinity) <= now);
      reply(due.slice(0, limit));
    });
  }

  async #clock(): Promise<number> {
    const { network, life } = this.#parts;
    const [began, wallBegan] = [life.elapsed, life.wall];
    const time = await network.call<number>(life, (reply) => reply(network.storeClock));
    life.noteStoreClock(time, Math.max(life.elapsed - began, life.wall - wallBegan));
    return time;
  }

  /** A courtesy that may fail: the reply is never sent twice, and sometimes not at all. */
  #changed(id: OperationId, seen: Revision, signal: AbortSignal): Promise<void> {
    const { network, life, table } = this.#parts;
    return network.call(life, (reply) => {
      if (table.get(id)?.revision !== seen) {
        reply(undefined);
        return;
      }
      const stop = table.watch(id, () => {
        stop();
        reply(undefined);
      });
      signal.addEventListener('abort', stop, { once: true });
    });
  }
}

/** A record whose bytes come as something else, as a driver of another make may give them. */
function spoiltForm(kept: Kept | null): StoredRecord | undefined {
  if (kept === null) return undefined;
  const bytes = Uint8Array.from(kept.bytes).buffer as unknown as Uint8Array;
  return { revision: kept.revision, bytes };
}
