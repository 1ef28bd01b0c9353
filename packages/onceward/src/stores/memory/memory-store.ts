import { StoreError } from '../../engine/errors.ts';
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
import { assertFits } from '../record-size.ts';

export interface MemoryStoreOptions {
  /** The longest record accepted; 2 MiB unless told. */
  readonly maxRecordBytes?: number;
}

/** Records in maps: for tests, and for operations that need not be remembered beyond this process. */
export function memoryStore(options: MemoryStoreOptions = {}): RecordStore {
  return new MemoryStore(options.maxRecordBytes ?? 2 * MIB);
}

/** Its bytes are held as a string of them: the collector of garbage minds that far less than a buffer for each. */
interface Kept {
  readonly id: OperationId;
  revision: Revision;
  bytes: string;
  state: RecordState;
  dueAt: EpochMs | null;
  watchers: Set<() => void> | null;
}

class MemoryStore implements RecordStore {
  readonly traits;
  /** By scope, then by key. */
  readonly #scopes = new Map<string, Map<string, Kept>>();
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
    const current = this.#find(id);
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
    const wanted = scope === undefined ? this.#scopes.values() : [this.#scopes.get(scope) ?? []];
    for (const keys of wanted) {
      for (const record of keys.values()) {
        if (found >= limit) return;
        if (states && !states.includes(record.state)) continue;
        if (dueBefore !== undefined && !isDue(record, dueBefore)) continue;
        found++;
        const { id, revision, state, dueAt } = record;
        yield { id, revision, bytes: bytesOf(record.bytes), state, dueAt };
      }
    }
  }

  async count(): Promise<StoreCount> {
    this.#assertOpen();
    return { ...this.#count };
  }

  async forgetDue(now: EpochMs, limit: number): Promise<number> {
    this.#assertOpen();
    let forgotten = 0;
    for (const keys of this.#scopes.values()) {
      for (const record of keys.values()) {
        if (forgotten >= limit) return forgotten;
        const isSettled = record.state === 'committed' || record.state === 'rejected';
        if (!isSettled || !isDue(record, now)) continue;
        this.#remove(record);
        forgotten++;
      }
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
    for (const keys of this.#scopes.values()) for (const record of keys.values()) wake(record);
    this.#scopes.clear();
  }

  #find({ scope, key }: OperationId): Kept | undefined {
    return this.#scopes.get(scope)?.get(key);
  }

  #add({ scope, key }: OperationId, revision: Revision, next: NextRecord): void {
    let keys = this.#scopes.get(scope);
    if (keys === undefined) {
      keys = new Map();
      this.#scopes.set(scope, keys);
    }
    const { state, dueAt } = next;
    const bytes = textOf(next.bytes);
    keys.set(key, { id: { scope, key }, revision, bytes, state, dueAt, watchers: null });
    this.#count[state]++;
  }

  #remove(record: Kept): void {
    const { scope, key } = record.id;
    const keys = this.#scopes.get(scope)!;
    keys.delete(key);
    if (keys.size === 0) this.#scopes.delete(scope);
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
