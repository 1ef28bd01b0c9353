import { createHash } from 'node:crypto';
import { StoreError } from '../../engine/errors.ts';
import type { OperationId, RecordState, Revision } from '../../engine/record.ts';
import type {
  NextRecord,
  ScannedRecord,
  ScanQuery,
  StoreCount,
  StoredRecord,
  SwapResult,
} from '../../engine/record-store.ts';
import type { EpochMs } from '../../engine/units.ts';
import type { SqliteDatabase, SqliteRunResult, SqliteStatement } from './sqlite-driver.ts';

export interface SwapItem {
  readonly id: OperationId;
  readonly expected: Revision | null;
  readonly next: NextRecord | null;
}

/** `collision`: the hash belongs to another operation. Nothing was done, and the rest of the batch is not concerned. */
export type SwapAnswer = SwapResult | 'collision';

/** The states as they stand in the table. A number, once given, keeps its meaning. */
const STATES: readonly (RecordState | null)[] = [
  null,
  'pending',
  'committed',
  'rejected',
  'in_doubt',
];

/** How many places of the table one statement of a scan or sweep reads. */
const STRETCH = 5_000;
/** How many stretches one call of the sweeper goes. */
const MAX_STRETCHES = 100;

interface Row {
  readonly place: number;
  readonly scope: string;
  readonly key: string;
  readonly revision: number;
  readonly state: number;
  readonly due_at: number | null;
  readonly bytes: Uint8Array | ArrayBuffer;
}

/** A page of a scan, and where the next one begins; `null` at the end. */
export interface ScanPage {
  readonly records: readonly ScannedRecord[];
  readonly next: number | null;
}

/** The records of one database. Every method is one or more statements, and none begins or ends a transaction. */
export class RecordTable {
  readonly #read: SqliteStatement;
  readonly #insert: SqliteStatement;
  readonly #update: SqliteStatement;
  readonly #delete: SqliteStatement;
  readonly #mint: SqliteStatement;
  readonly #extent: SqliteStatement;
  readonly #page: SqliteStatement;
  readonly #forget: SqliteStatement;
  readonly #count: SqliteStatement;
  #sweptTo = 0;

  constructor(database: SqliteDatabase) {
    const table = 'onceward_records';
    const prepare = (sql: string) => database.prepare(sql);
    // `node:sqlite` binds no bytes as null.
    const bytes = `coalesce(?, x'')`;
    // The limit is a parameter because libsql takes a single one that is a blob for a set of named ones.
    this.#read = prepare(`select scope, key, revision, bytes from ${table} where hash = ? limit ?`);
    this.#insert = prepare(
      `insert into ${table} (hash, scope, key, revision, state, due_at, bytes)
       values (?, ?, ?, ?, ?, ?, ${bytes}) on conflict (hash) do nothing`,
    );
    const expected = 'hash = ? and revision = ? and scope = ? and key = ?';
    this.#update = prepare(
      `update ${table} set revision = ?, state = ?, due_at = ?, bytes = ${bytes} where ${expected}`,
    );
    this.#delete = prepare(`delete from ${table} where ${expected}`);
    this.#mint = prepare(
      `update onceward_meta set value = value + ? where name = 'revision' returning value`,
    );
    this.#extent = prepare(
      `select coalesce(min(place), 0) as first, coalesce(max(place), -1) as last from ${table}`,
    );
    this.#page = prepare(`select * from ${table} where place >= ? and place < ? order by place`);
    this.#forget = prepare(
      `delete from ${table} where place in (
         select place from ${table} where place >= ? and place < ?
           and state in (2, 3) and due_at <= ? limit ?) returning 1 as deleted`,
    );
    this.#count = prepare(`select state, count(*) as records from ${table} group by state`);
  }

  read(id: OperationId): StoredRecord | null {
    const found = this.#find(id);
    if (found === 'collision') throw collision();
    return found;
  }

  /** All of them, one after the other. Revisions are taken for all at once, so some may go unused. */
  swapAll(items: readonly SwapItem[]): SwapAnswer[] {
    const last = (this.#mint.get(items.length) as { value: number }).value;
    const first = last - items.length + 1;
    return items.map((item, at) => this.#swap(item, first + at));
  }

  scanPage(query: ScanQuery, from: number): ScanPage {
    const { first, last } = this.#extent.get() as { first: number; last: number };
    const start = Math.max(from, first);
    const rows = this.#page.all(start, start + STRETCH) as Row[];
    const records = rows.map(recordIn).filter((record) => fits(record, query));
    return { records, next: start + STRETCH > last ? null : start + STRETCH };
  }

  count(): StoreCount {
    const counts: Record<RecordState, number> = {
      pending: 0,
      committed: 0,
      rejected: 0,
      in_doubt: 0,
    };
    for (const row of this.#count.all() as { state: number; records: number }[]) {
      counts[stateOf(row.state)] = row.records;
    }
    return counts;
  }

  /** Goes round the table, a stretch after the other, so that a large one is never read at once. */
  forgetDue(now: EpochMs, limit: number): number {
    const { first, last } = this.#extent.get() as { first: number; last: number };
    const stretches = Math.min(Math.ceil((last - first + 1) / STRETCH) + 1, MAX_STRETCHES);
    let forgotten = 0;
    for (let at = 0; at < stretches && forgotten < limit; at += 1) {
      if (this.#sweptTo < first || this.#sweptTo > last) this.#sweptTo = first;
      const end = this.#sweptTo + STRETCH;
      forgotten += this.#forget.all(this.#sweptTo, end, now, limit - forgotten).length;
      if (forgotten < limit) this.#sweptTo = end;
    }
    return forgotten;
  }

  #swap(item: SwapItem, revision: Revision): SwapAnswer {
    if (this.#write(item, revision)) return { won: true, revision };
    const current = this.#find(item.id);
    if (current === 'collision') return current;
    const absentAsExpected = current === null && item.expected === null && item.next === null;
    return absentAsExpected ? { won: true, revision } : { won: false, current };
  }

  #find(id: OperationId): StoredRecord | null | 'collision' {
    const row = this.#read.get(hashOf(id), 1) as Row | undefined;
    if (row === undefined) return null;
    if (row.scope !== id.scope || row.key !== id.key) return 'collision';
    return { revision: row.revision, bytes: bytesIn(row) };
  }

  /** One statement, which changes a row exactly if what is there is what was expected. */
  #write({ id, expected, next }: SwapItem, revision: Revision): boolean {
    const hash = hashOf(id);
    const { scope, key } = id;
    if (next === null) {
      return expected !== null && changed(this.#delete.run(hash, expected, scope, key));
    }
    const state = STATES.indexOf(next.state);
    const dueAt = next.dueAt === null ? null : Math.ceil(next.dueAt);
    const { bytes } = next;
    return changed(
      expected === null
        ? this.#insert.run(hash, scope, key, revision, state, dueAt, bytes)
        : this.#update.run(revision, state, dueAt, bytes, hash, expected, scope, key),
    );
  }
}

function changed(result: SqliteRunResult): boolean {
  return Number(result.changes) > 0;
}

/** Asks page after page until the limit or the end. */
export async function* pagesOf(
  query: ScanQuery,
  readPage: (from: number) => Promise<ScanPage>,
): AsyncGenerator<ScannedRecord> {
  let given = 0;
  let from: number | null = 0;
  while (from !== null && given < query.limit) {
    const page: ScanPage = await readPage(from);
    for (const record of page.records.slice(0, query.limit - given)) {
      given += 1;
      yield record;
    }
    from = page.next;
  }
}

function hashOf(id: OperationId): Uint8Array {
  const hash = createHash('sha256').update(`${id.scope.length}:${id.scope}${id.key}`).digest();
  return hash.subarray(0, 16);
}

function recordIn(row: Row): ScannedRecord {
  return {
    id: { scope: row.scope, key: row.key },
    revision: row.revision,
    state: stateOf(row.state),
    dueAt: row.due_at,
    bytes: bytesIn(row),
  };
}

/** libsql gives bytes as such from `get`, and as an `ArrayBuffer` from `all`. */
function bytesIn({ bytes }: Row): Uint8Array {
  return bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes);
}

function stateOf(number: number): RecordState {
  const state = STATES[number];
  if (state != null) return state;
  throw new StoreError('ONCE_RECORD_UNREADABLE', `onceward_records holds state ${number}`, {
    applied: 'no',
  });
}

function fits(record: ScannedRecord, query: ScanQuery): boolean {
  if (query.states !== undefined && !query.states.includes(record.state)) return false;
  if (query.scope !== undefined && query.scope !== record.id.scope) return false;
  return (
    query.dueBefore === undefined || (record.dueAt !== null && record.dueAt <= query.dueBefore)
  );
}

export function collision(): StoreError {
  return new StoreError(
    'ONCE_RECORD_UNREADABLE',
    'two operations have the same hash, which should not happen within the age of the universe',
    { applied: 'no' },
  );
}
