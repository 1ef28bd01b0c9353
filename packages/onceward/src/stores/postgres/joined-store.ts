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
import type { DurationMs } from '../../engine/units.ts';
import { CallDeadlines } from '../call-deadlines.ts';
import type { PgClient } from './pg-driver.ts';
import { explain } from './pg-session.ts';
import { collision, hashOf, READ, type ReadRow, recordFor, uuidText } from './record-rows.ts';
import { countRecords, scanRecords } from './record-scan.ts';
import { SWAP_WITHIN, SwapBatch, type SwapRow } from './swap-batch.ts';
import { failedBefore } from './transactions.ts';

/** What stands in the way of a claim may be swept away before it can be shown; hardly twice in a row. */
const MOST_TRIES = 5;

/** The records as part of a transaction that someone else began and will end. */
export class JoinedStore implements RecordStore {
  readonly traits: StoreTraits;
  readonly #client: PgClient;
  readonly #deadlines: CallDeadlines;
  /** The transaction of the first write; each later one must be part of it too. */
  #transaction: string | null = null;

  constructor(traits: StoreTraits, client: PgClient, timeoutMs: DurationMs) {
    this.traits = traits;
    this.#client = client;
    this.#deadlines = new CallDeadlines(timeoutMs);
  }

  async read(id: OperationId): Promise<StoredRecord | null> {
    const [row] = await this.#run<ReadRow>(READ, [[uuidText(hashOf(id))]]);
    return recordFor(id, row === undefined || row.hash === null ? null : row);
  }

  async swap(
    id: OperationId,
    expected: Revision | null,
    next: NextRecord | null,
  ): Promise<SwapResult> {
    // Another transaction that is writing the same operation is waited for: its end decides.
    const batch = new SwapBatch([{ id, hash: hashOf(id), expected, next }]);
    for (let tries = 0; tries < MOST_TRIES; tries += 1) {
      const parameters = [...batch.parameters(true), this.#transaction];
      const rows = await this.#run<SwapRow>(SWAP_WITHIN, parameters);
      if (rows[0] === undefined) throw otherTransaction();
      this.#transaction = rows[0].transaction ?? null;
      const [answer] = batch.answers(rows);
      if (answer === 'collision') throw collision();
      if (answer !== undefined && answer !== 'busy') return answer;
    }
    throw new StoreError('ONCE_STORE_UNAVAILABLE', 'the conflicting record was removed each time', {
      applied: 'no',
    });
  }

  scan(query: ScanQuery): AsyncIterable<ScannedRecord> {
    return scanRecords((text, values) => this.#run(text, values), query);
  }

  count(): Promise<StoreCount> {
    return countRecords((text, values) => this.#run(text, values));
  }

  /** The transaction is not ours to end. */
  async close(): Promise<void> {}

  async #run<Row>(text: string, values: unknown[]): Promise<readonly Row[]> {
    const { rows } = await this.#deadlines.bound(this.#client.query(text, values), explainWithin);
    return rows as readonly Row[];
  }
}

/** SQLSTATE of every statement after one that failed. */
const IN_FAILED_TRANSACTION = '25P02';

function explainWithin(cause: unknown): StoreError {
  const isFailed = (cause as { code?: unknown }).code === IN_FAILED_TRANSACTION;
  return isFailed ? failedBefore() : explain(cause);
}

function otherTransaction(): StoreError {
  return new StoreError(
    'ONCE_INVALID_INPUT',
    'the transaction in which the operation was claimed was ended outside of it, so its effect and its record ' +
      'are not one; use savepoints within the transaction, and leave its end to the code that began it',
    { applied: 'no' },
  );
}
