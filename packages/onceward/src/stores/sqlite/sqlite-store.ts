import type { OperationId, Revision } from '../../engine/record.ts';
import type {
  NextRecord,
  RecordStore,
  ScannedRecord,
  ScanQuery,
  StoreCount,
  StoredRecord,
  StoreTraits,
  SwapResult,
  TransactionalStore,
} from '../../engine/record-store.ts';
import { type DurationMs, type EpochMs, MIB } from '../../engine/units.ts';
import { CallDeadlines } from '../call-deadlines.ts';
import type { StoreFinding } from '../durability.ts';
import { assertFits } from '../record-size.ts';
import { requireStorable } from '../storable-id.ts';
import { SwapQueue } from '../swap-queue.ts';
import { JoinedStore } from './joined-store.ts';
import { collision, pagesOf, type SwapAnswer, type SwapItem } from './record-table.ts';
import type { SqliteAccess } from './sqlite-access.ts';
import type { SqliteDatabase } from './sqlite-driver.ts';
import { requireSameLibrary } from './sqlite-library.ts';

const MAX_RECORD_BYTES = 8 * MIB;
const MAX_BATCH = 512;

export class SqliteStore implements TransactionalStore<SqliteDatabase> {
  readonly traits: StoreTraits;
  /** The settings of the database that decide what the store promises. */
  readonly findings: readonly StoreFinding[];
  readonly #access: SqliteAccess;
  /** Connections that are known to come from the same copy of SQLite. */
  readonly #known = new WeakSet<SqliteDatabase>();
  readonly #deadlines: CallDeadlines;
  readonly #swaps: SwapQueue<SwapItem, SwapAnswer>;

  constructor(access: SqliteAccess, timeoutMs: DurationMs) {
    this.traits = {
      name: 'sqlite',
      durability: access.proof.durability,
      maxRecordBytes: MAX_RECORD_BYTES,
      firstRevisionOfLife: null,
    };
    this.findings = access.proof.findings;
    this.#access = access;
    this.#deadlines = new CallDeadlines(timeoutMs);
    this.#swaps = new SwapQueue({
      lanes: 1,
      maxBatch: MAX_BATCH,
      timeoutMs,
      run: (items) => access.call('swapAll', items),
    });
  }

  async read(id: OperationId): Promise<StoredRecord | null> {
    requireStorable(id);
    return this.#bounded(this.#access.call('read', id));
  }

  async swap(
    id: OperationId,
    expected: Revision | null,
    next: NextRecord | null,
  ): Promise<SwapResult> {
    requireStorable(id);
    assertFits(next, this.traits);
    const answer = await this.#swaps.add({ id, expected, next });
    if (answer === 'collision') throw collision();
    return answer;
  }

  scan(query: ScanQuery): AsyncIterable<ScannedRecord> {
    return pagesOf(query, async (from) => this.#access.call('scanPage', query, from));
  }

  count(): Promise<StoreCount> {
    return this.#access.call('count');
  }

  forgetDue(now: EpochMs, limit: number): Promise<number> {
    return this.#access.call('forgetDue', now, limit);
  }

  /** The same records, written on `database` as part of the transaction it has open. */
  within(database: SqliteDatabase): RecordStore {
    if (!this.#known.has(database)) {
      requireSameLibrary(database, this.#access.proof.library);
      this.#known.add(database);
    }
    return new JoinedStore(this.traits, database);
  }

  close(): Promise<void> {
    return this.#access.close();
  }

  #bounded<T>(call: Promise<T>): Promise<T> {
    return this.#deadlines.bound(call, (cause) => cause);
  }
}
