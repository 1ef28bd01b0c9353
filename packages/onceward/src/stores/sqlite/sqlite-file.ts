import { StoreError } from '../../engine/errors.ts';
import type { OperationId } from '../../engine/record.ts';
import type { ScanQuery, StoreCount, StoredRecord } from '../../engine/record-store.ts';
import type { EpochMs } from '../../engine/units.ts';
import type { Durability, StoreFinding } from '../durability.ts';
import { RecordTable, type ScanPage, type SwapAnswer, type SwapItem } from './record-table.ts';
import { SCHEMA } from './schema.sql.ts';
import type { SqliteDatabase } from './sqlite-driver.ts';
import { libraryOf } from './sqlite-library.ts';

/** As `schema.sql` writes them. */
const SCHEMA_VERSION = 1;
const RECORD_COLUMNS = 'place hash scope key revision state due_at bytes';

/** What the store asks of its database, one by one. The same words travel to a worker thread. */
export interface SqliteCalls {
  read(id: OperationId): StoredRecord | null;
  swapAll(items: readonly SwapItem[]): SwapAnswer[];
  scanPage(query: ScanQuery, from: number): ScanPage;
  count(): StoreCount;
  forgetDue(now: EpochMs, limit: number): number;
}

export interface DurabilityProof {
  readonly durability: Durability;
  readonly findings: readonly StoreFinding[];
  /** Which copy of SQLite has the file open. */
  readonly library: string;
}

/** Thrown instead of waiting: another connection is writing. The caller tries again until its time is up. */
export class SqliteBusy extends Error {}

/** A database with our tables in it, and transactions around what writes. */
export class SqliteFile implements SqliteCalls {
  readonly proof: DurabilityProof;
  readonly #database: SqliteDatabase;
  readonly #table: RecordTable;
  #failure: StoreError | null = null;

  /** `ours`: the connection was opened for the store alone, and its settings are the store's to choose. */
  constructor(database: SqliteDatabase, ours: boolean) {
    this.#database = database;
    // SQLite does not wait for a lock while it changes its journal, whatever its patience otherwise.
    if (ours) unlessBusy(() => setUp(database));
    this.#inTransaction(() => database.exec(SCHEMA));
    unlessBusy(() => checkSchema(database));
    this.proof = unlessBusy(() => proveDurability(database));
    this.#table = unlessBusy(() => new RecordTable(database));
  }

  read(id: OperationId): StoredRecord | null {
    return unlessBusy(() => this.#table.read(id));
  }

  swapAll(items: readonly SwapItem[]): SwapAnswer[] {
    return this.#inTransaction(() => this.#table.swapAll(items));
  }

  scanPage(query: ScanQuery, from: number): ScanPage {
    return unlessBusy(() => this.#table.scanPage(query, from));
  }

  count(): StoreCount {
    return unlessBusy(() => this.#table.count());
  }

  forgetDue(now: EpochMs, limit: number): number {
    return this.#inTransaction(() => this.#table.forgetDue(now, limit));
  }

  close(): void {
    this.#database.close();
  }

  #inTransaction<T>(work: () => T): T {
    if (this.#failure !== null) throw stopped(this.#failure);
    unlessBusy(() => this.#database.exec('begin immediate'));
    let result: T;
    try {
      result = work();
    } catch (error) {
      this.#database.exec('rollback');
      throw failed(error, 'no');
    }
    try {
      this.#database.exec('commit');
    } catch (error) {
      // A reader of a file without a log of its own: the commit was not tried yet, and can be taken back.
      if (isBusy(error)) {
        this.#database.exec('rollback');
        throw new SqliteBusy();
      }
      // After a failed sync it is unknown what is on disk, and a second one may succeed without having written it.
      this.#failure = new StoreError(
        'ONCE_STORE_FAILED',
        `SQLite could not commit, and the store has stopped: ${(error as Error).message}`,
        { cause: error },
      );
      throw this.#failure;
    }
    return result;
  }
}

/** What is asked of a store that has stopped is never tried. */
function stopped({ code, message, cause }: StoreError): StoreError {
  return new StoreError(code, message, { cause, applied: 'no' });
}

function setUp(database: SqliteDatabase): void {
  for (const pragma of ['journal_mode = wal', 'synchronous = full', 'fullfsync = on']) {
    // Not as a statement: drivers differ in which of these return a row, and some refuse to be asked for none.
    database.exec(`pragma ${pragma}`);
  }
}

/** A database that is locked, or busy with someone else's transaction on the same connection. */
const BUSY = /busy|locked|within a transaction/i;

export function isBusy(error: unknown): boolean {
  return BUSY.test((error as Error).message);
}

function unlessBusy<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    // What we say ourselves may name a column that is called "locked".
    if (!(error instanceof StoreError) && isBusy(error)) throw new SqliteBusy();
    throw failed(error, 'no');
  }
}

function failed(error: unknown, applied: 'no' | 'unknown'): unknown {
  if (error instanceof StoreError) return error;
  const message = `SQLite failed: ${(error as Error).message}`;
  return new StoreError('ONCE_STORE_UNAVAILABLE', message, { cause: error, applied });
}

function checkSchema(database: SqliteDatabase): void {
  const meta = database.prepare(`select value from onceward_meta where name = 'version'`).get() as {
    value: number;
  };
  if (meta.value !== SCHEMA_VERSION) {
    throw wrong(`the tables have version ${meta.value}, this code wants ${SCHEMA_VERSION}`);
  }
  const rows = database.prepare('pragma table_info(onceward_records)').all();
  const columns = (rows as { name: string }[]).map((row) => row.name).join(' ');
  if (columns !== RECORD_COLUMNS) {
    throw wrong(`onceward_records has the columns ${columns}, and should have ${RECORD_COLUMNS}`);
  }
}

function wrong(message: string): StoreError {
  return new StoreError('ONCE_STORE_VERSION', message, { applied: 'no' });
}

function proveDurability(database: SqliteDatabase): DurabilityProof {
  const pragma = (name: string) =>
    Object.values(database.prepare(`pragma ${name}`).get() as Record<string, unknown>)[0];
  const synchronous = Number(pragma('synchronous'));
  const journal = String(pragma('journal_mode'));
  const kept = journal !== 'memory' && journal !== 'off';
  const full = synchronous >= 2;
  const findings: StoreFinding[] = [
    {
      setting: 'journal_mode',
      value: journal,
      limits: !kept,
      says: kept ? 'as it should be' : 'a crash can destroy the file; set it to wal',
    },
    {
      setting: 'synchronous',
      value: ['off', 'normal', 'full', 'extra'][synchronous] ?? String(synchronous),
      limits: !full,
      says: full ? 'as it should be' : 'a power cut loses acknowledged commits; set it to full',
    },
  ];
  const library = libraryOf(database);
  if (!kept) return { durability: 'none', findings, library };
  return { durability: full ? 'machine' : 'process', findings, library };
}
