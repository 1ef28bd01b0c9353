import { StoreError } from '../../engine/errors.ts';
import type { OperationId, RecordState, Revision } from '../../engine/record.ts';
import type {
  NextRecord,
  RecordStore,
  ScannedRecord,
  ScanQuery,
  StoreCount,
  StoredRecord,
  SwapResult,
} from '../../engine/record-store.ts';
import { type EpochMs, MIB } from '../../engine/units.ts';

export interface MemoryStoreOptions {
  /** The longest record accepted; 2 MiB unless told. */
  readonly maxRecordBytes?: number;
}

/** Records in a `Map`: for tests, and for operations that need not be remembered beyond this process. */
export function memoryStore(options: MemoryStoreOptions = {}): RecordStore {
  return new MemoryStore(options.maxRecordBytes ?? 2 * MIB);
}

type Kept = ScannedRecord;

class MemoryStore implements RecordStore {
  readonly traits;
  readonly #records = new Map<string, Kept>();
  readonly #watchers = new Map<string, Set<() => void>>();
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
    return copyOf(this.#records.get(nameOf(id)));
  }

  async swap(
    id: OperationId,
    expected: Revision | null,
    next: NextRecord | null,
  ): Promise<SwapResult> {
    this.#assertOpen();
    const { maxRecordBytes } = this.traits;
    if (next && next.bytes.length > maxRecordBytes) {
      throw new StoreError(
        'ONCE_TOO_LARGE',
        `The record has ${next.bytes.length} bytes, the store accepts ${maxRecordBytes}. Keep less of the outcome or raise maxRecordBytes.`,
        { applied: 'no' },
      );
    }
    const name = nameOf(id);
    const current = this.#records.get(name);
    if ((current?.revision ?? null) !== expected) return { won: false, current: copyOf(current) };
    const revision = ++this.#revision;
    if (current) this.#remove(name, current);
    if (next) {
      const { state, dueAt } = next;
      const { scope, key } = id;
      const bytes = new Uint8Array(next.bytes);
      this.#records.set(name, { id: { scope, key }, revision, bytes, state, dueAt });
      this.#count[state]++;
    }
    this.#wake(name);
    return { won: true, revision };
  }

  async *scan(query: ScanQuery): AsyncIterable<ScannedRecord> {
    this.#assertOpen();
    const { states, scope, dueBefore, limit } = query;
    let found = 0;
    for (const record of this.#records.values()) {
      if (found >= limit) return;
      if (states && !states.includes(record.state)) continue;
      if (scope !== undefined && record.id.scope !== scope) continue;
      if (dueBefore !== undefined && !isDue(record, dueBefore)) continue;
      found++;
      yield { ...record, bytes: new Uint8Array(record.bytes) };
    }
  }

  async count(): Promise<StoreCount> {
    this.#assertOpen();
    return { ...this.#count };
  }

  async forgetDue(now: EpochMs, limit: number): Promise<number> {
    this.#assertOpen();
    let forgotten = 0;
    for (const [name, record] of this.#records) {
      if (forgotten >= limit) break;
      const isSettled = record.state === 'committed' || record.state === 'rejected';
      if (!isSettled || !isDue(record, now)) continue;
      this.#remove(name, record);
      this.#wake(name);
      forgotten++;
    }
    return forgotten;
  }

  changed(id: OperationId, seen: Revision, signal: AbortSignal): Promise<void> {
    const name = nameOf(id);
    if (signal.aborted || this.#isClosed) return Promise.resolve();
    if (this.#records.get(name)?.revision !== seen) return Promise.resolve();
    return new Promise((resolve) => {
      const watchers = this.#watchers.get(name) ?? new Set();
      this.#watchers.set(name, watchers);
      const settle = () => {
        signal.removeEventListener('abort', settle);
        watchers.delete(settle);
        if (watchers.size === 0) this.#watchers.delete(name);
        resolve();
      };
      watchers.add(settle);
      signal.addEventListener('abort', settle, { once: true });
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const name of [...this.#watchers.keys()]) this.#wake(name);
    this.#records.clear();
  }

  #remove(name: string, record: Kept): void {
    this.#records.delete(name);
    this.#count[record.state]--;
  }

  #wake(name: string): void {
    for (const settle of [...(this.#watchers.get(name) ?? [])]) settle();
  }

  #assertOpen(): void {
    if (!this.#isClosed) return;
    throw new StoreError('ONCE_STORE_FAILED', 'The store has been closed. Open a new one.', {
      applied: 'no',
    });
  }
}

/** The length keeps ("a", "b:c") and ("a:b", "c") apart, whatever the separator. */
function nameOf({ scope, key }: OperationId): string {
  return `${scope.length}:${scope}${key}`;
}

function isDue(record: Kept, now: EpochMs): boolean {
  return record.dueAt !== null && record.dueAt <= now;
}

/** What callers get is theirs: changing it must not change what is stored. */
function copyOf(record: Kept | undefined): StoredRecord | null {
  return record ? { revision: record.revision, bytes: new Uint8Array(record.bytes) } : null;
}
