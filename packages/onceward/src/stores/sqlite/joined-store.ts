import { StoreError } from '../../engine/errors.ts';
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
} from '../../engine/record-store.ts';
import { requireStorable } from '../storable-id.ts';
import { collision, pagesOf, RecordTable } from './record-table.ts';
import type { SqliteDatabase } from './sqlite-driver.ts';

/** The records as part of a transaction that someone else began and will end. */
export class JoinedStore implements RecordStore {
  readonly traits: StoreTraits;
  readonly #database: SqliteDatabase;
  readonly #table: RecordTable;

  constructor(traits: StoreTraits, database: SqliteDatabase) {
    this.traits = traits;
    this.#database = database;
    this.#table = new RecordTable(database);
  }

  async read(id: OperationId): Promise<StoredRecord | null> {
    requireStorable(id);
    return this.#attempt(() => this.#table.read(id));
  }

  async swap(
    id: OperationId,
    expected: Revision | null,
    next: NextRecord | null,
  ): Promise<SwapResult> {
    requireStorable(id);
    if ((this.#database.inTransaction ?? this.#database.isTransaction) === false) {
      throw new StoreError(
        'ONCE_INVALID_INPUT',
        'the database has no transaction open; begin one (begin immediate) before joining it',
        { applied: 'no' },
      );
    }
    const [answer] = this.#attempt(() => this.#table.swapAll([{ id, expected, next }]));
    if (answer === 'collision') throw collision();
    return answer as SwapResult;
  }

  scan(query: ScanQuery): AsyncIterable<ScannedRecord> {
    return pagesOf(query, async (from) => this.#attempt(() => this.#table.scanPage(query, from)));
  }

  async count(): Promise<StoreCount> {
    return this.#attempt(() => this.#table.count());
  }

  /** The transaction is not ours to end. */
  async close(): Promise<void> {}

  /** Until the caller commits, nothing is applied. */
  #attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (cause) {
      if (cause instanceof StoreError) throw cause;
      const message = `SQLite failed: ${(cause as Error).message}`;
      throw new StoreError('ONCE_STORE_UNAVAILABLE', message, { cause, applied: 'no' });
    }
  }
}
