import { randomBytes } from 'node:crypto';
import { StoreError } from '../../engine/errors.ts';
import { refuseUnknown } from '../../engine/known-options.ts';
import { KeyHash } from '../../engine/near/key-hash.ts';
import type { OperationId, RecordState, Revision } from '../../engine/record.ts';
import type {
  InsertedRecord,
  NextRecord,
  RecordStore,
  ScannedRecord,
  ScanQuery,
  StoreCount,
  StoredRecord,
  SwapResult,
} from '../../engine/record-store.ts';
import { type EpochMs, MIB } from '../../engine/units.ts';
import { Recent } from '../recent.ts';
import { assertFits } from '../record-size.ts';
import { SlotShards } from '../slots.ts';

export interface MemoryStoreOptions {
  /** The longest record accepted; 2 MiB by default. */
  readonly maxRecordBytes?: number;
}

const KNOWN = { maxRecordBytes: true } satisfies Record<keyof MemoryStoreOptions, true>;

/** Records in memory: for tests, and for operations that need not be remembered beyond this process. */
export function memoryStore(options: MemoryStoreOptions = {}): RecordStore {
  refuseUnknown('the memory store', options, KNOWN);
  return new MemoryStore(options.maxRecordBytes ?? 2 * MIB);
}

interface Scope {
  readonly name: string;
  readonly salt: number;
  records: number;
}

/** Its bytes are held as a binary string: that costs the GC far less than a buffer for each. */
interface Kept {
  readonly scope: Scope;
  readonly key: string;
  readonly row: number;
  revision: Revision;
  bytes: string;
  state: RecordState;
  dueAt: EpochMs | null;
  watchers: Set<() => void> | null;
}

class MemoryStore implements RecordStore {
  readonly traits;
  readonly #rows: (Kept | null)[] = [];
  readonly #freeRows: number[] = [];
  readonly #scopes = new Map<string, Scope>();
  readonly #slots = new SlotShards();
  readonly #keyHash = new KeyHash(randomBytes(16).toString('hex'));
  readonly #claims = new Recent<Kept>();
  #lastSalt = 0;
  readonly #count: Record<RecordState, number> = {
    pending: 0,
    committed: 0,
    rejected: 0,
    in_doubt: 0,
  };
  #revision: Revision = 0;
  #isClosed = false;

  constructor(maxRecordBytes: number) {
    this.traits = {
      name: 'memory',
      durability: 'none',
      maxRecordBytes,
      firstRevisionOfLife: 1,
    } as const;
  }

  async read(id: OperationId): Promise<StoredRecord | null> {
    this.#assertOpen();
    return copyOf(this.#find(id));
  }

  async swap(
    id: OperationId,
    expected: Revision | null,
    next: NextRecord | null,
  ): Promise<SwapResult> {
    return this.swapNow(id, expected, next);
  }

  swapNow(id: OperationId, expected: Revision | null, next: NextRecord | null): SwapResult {
    this.#assertOpen();
    assertFits(next, this.traits);
    const current = this.#findClaim(id, expected) ?? this.#find(id);
    if ((current?.revision ?? null) !== expected) return { won: false, current: copyOf(current) };
    const revision = ++this.#revision;
    if (next === null) {
      if (current !== undefined) this.#remove(current);
    } else if (current === undefined) {
      this.#add(id, revision, next);
    } else {
      this.#count[current.state]--;
      this.#count[next.state]++;
      current.revision = revision;
      current.bytes = textOf(next.bytes);
      current.state = next.state;
      current.dueAt = next.dueAt;
      wake(current);
    }
    return { won: true, revision };
  }

  async insertAll(records: readonly InsertedRecord[]): Promise<readonly Revision[] | null> {
    this.#assertOpen();
    for (const { next } of records) assertFits(next, this.traits);
    if (records.some(({ id }) => this.#find(id) !== undefined)) return null;
    return records.map(({ id, next }) => {
      this.#revision += 1;
      this.#add(id, this.#revision, next);
      return this.#revision;
    });
  }

  async *scan(query: ScanQuery): AsyncIterable<ScannedRecord> {
    this.#assertOpen();
    const { states, scope, dueBefore, limit } = query;
    let found = 0;
    for (const record of this.#rows) {
      if (found >= limit) return;
      if (record === null) continue;
      if (scope !== undefined && record.scope.name !== scope) continue;
      if (states && !states.includes(record.state)) continue;
      if (dueBefore !== undefined && !isDue(record, dueBefore)) continue;
      found++;
      const { key, revision, state, dueAt } = record;
      yield {
        id: { scope: record.scope.name, key },
        revision,
        bytes: bytesOf(record.bytes),
        state,
        dueAt,
      };
    }
  }

  async count(): Promise<StoreCount> {
    this.#assertOpen();
    return { ...this.#count };
  }

  async forgetDue(now: EpochMs, limit: number): Promise<number> {
    this.#assertOpen();
    let forgotten = 0;
    for (const record of this.#rows) {
      if (forgotten >= limit) return forgotten;
      if (record?.state !== 'committed' && record?.state !== 'rejected') continue;
      if (!isDue(record, now)) continue;
      this.#remove(record);
      forgotten++;
    }
    return forgotten;
  }

  changed(id: OperationId, seen: Revision, signal: AbortSignal): Promise<void> {
    const record = this.#find(id);
    if (signal.aborted || record?.revision !== seen) return Promise.resolve();
    return new Promise((resolve) => {
      const watchers = record.watchers ?? new Set();
      record.watchers = watchers;
      const settle = () => {
        signal.removeEventListener('abort', settle);
        watchers.delete(settle);
        resolve();
      };
      watchers.add(settle);
      signal.addEventListener('abort', settle, { once: true });
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const record of this.#rows) if (record !== null) wake(record);
    this.#rows.length = 0;
    this.#scopes.clear();
  }

  #find({ scope: name, key }: OperationId): Kept | undefined {
    const scope = this.#scopes.get(name);
    if (scope === undefined) return undefined;
    const hash = this.#keyHash.of(key, scope.salt);
    const slots = this.#slots.of(hash);
    for (let at = slots.first(hash); at >= 0; at = slots.next(hash, at)) {
      const record = this.#rows[slots.rowAt(at)]!;
      if (record.key === key && record.scope === scope) return record;
    }
    return undefined;
  }

  /** A claim is settled soon after it was granted: then its record need not be searched for. */
  #findClaim(id: OperationId, revision: Revision | null): Kept | undefined {
    if (revision === null) return undefined;
    const record = this.#claims.take(id, revision);
    return record?.revision === revision && this.#rows[record.row] === record ? record : undefined;
  }

  #add(id: OperationId, revision: Revision, next: NextRecord): void {
    const { scope: name, key } = id;
    let scope = this.#scopes.get(name);
    if (scope === undefined) {
      this.#lastSalt = (this.#lastSalt + 1) | 0;
      scope = { name, salt: this.#lastSalt, records: 0 };
      this.#scopes.set(name, scope);
    }
    const row = this.#freeRows.pop() ?? this.#rows.length;
    const { state, dueAt } = next;
    const bytes = textOf(next.bytes);
    const record: Kept = { scope, key, row, revision, bytes, state, dueAt, watchers: null };
    this.#rows[row] = record;
    if (state === 'pending') this.#claims.note(id, revision, record);
    const hash = this.#keyHash.of(key, scope.salt);
    this.#slots.of(hash).add(hash, row);
    scope.records++;
    this.#count[state]++;
  }

  #remove(record: Kept): void {
    const { scope, key, row } = record;
    const hash = this.#keyHash.of(key, scope.salt);
    this.#slots.of(hash).remove(hash, row);
    this.#rows[row] = null;
    this.#freeRows.push(row);
    scope.records--;
    if (scope.records === 0) this.#scopes.delete(scope.name);
    this.#count[record.state]--;
    wake(record);
  }

  #assertOpen(): void {
    if (!this.#isClosed) return;
    throw new StoreError('ONCE_STORE_FAILED', 'The store has been closed. Open a new one.', {
      applied: 'no',
    });
  }
}

function wake({ watchers }: Kept): void {
  if (watchers !== null) for (const settle of [...watchers]) settle();
}

function isDue(record: Kept, now: EpochMs): boolean {
  return record.dueAt !== null && record.dueAt <= now;
}

function copyOf(record: Kept | undefined): StoredRecord | null {
  return record ? { revision: record.revision, bytes: bytesOf(record.bytes) } : null;
}

/** Records that come one after the other are mostly cut from one piece of memory. */
let piece: Buffer = Buffer.from(new ArrayBuffer(0));
const LARGEST_PIECE = 65_536;

/** Latin-1 has a character for every byte. */
function textOf({ buffer, byteOffset, length }: Uint8Array): string {
  if (buffer.byteLength > LARGEST_PIECE) {
    return Buffer.from(buffer, byteOffset, length).toString('latin1');
  }
  if (piece.buffer !== buffer) piece = Buffer.from(buffer);
  return piece.toString('latin1', byteOffset, byteOffset + length);
}

function bytesOf(text: string): Uint8Array {
  const { buffer, byteOffset, length } = Buffer.from(text, 'latin1');
  return new Uint8Array(buffer, byteOffset, length);
}
