import { setTimeout as sleep } from 'node:timers/promises';
import { type FileSystem, openSegmentLog, type SegmentLog } from '../../segment-log/index.ts';
import { ENTRY_HEADER } from '../../segment-log/segment-format.ts';
import { ClientError } from '../client-error.ts';
import { SortedIndex } from './memory.ts';
import { type Change, type Entry, meetsExpectation, type OutboxStorage } from './outbox-storage.ts';

export interface LogStorageOptions {
  /** A folder of its own; created where it is missing. */
  readonly directory: string;
  /**
   * Wait for another process that has the folder open, until it ends or the signal is aborted. Left out, a
   * folder in use is an error. The lock of a process that died never stands in the way.
   */
  readonly waitForLock?: AbortSignal;
  /** The size of one file of the log. */
  readonly segmentBytes?: number;
  /** Left out, Node's own. */
  readonly fileSystem?: FileSystem;
}

const LOG_KIND = 'outbox';
const SEGMENT_BYTES = 4 * 1_024 * 1_024;
const LOOK_AGAIN_MS = 250;
/** The log is rewritten when it has this many segments and most of what they hold is outdated. */
const MANY_SEGMENTS = 4;
const ENTRIES_PER_COPY = 200;
/** Rewriting needs free space before it frees any: on a full disk it is not tried after every swap. */
const COPY_AGAIN_MS = 1_000;

/** What one entry of the log says: keys and what they are set to, all at once. */
type LoggedChanges = readonly (readonly [key: string, next: Entry | null])[];

/**
 * Keeps an outbox in a folder of append-only segments; a swap is answered when it is on disk. One process at a
 * time can have it open, which also makes that process the only sender.
 */
export async function openLogStorage(options: LogStorageOptions): Promise<OutboxStorage> {
  const index = new SortedIndex();
  const log = await openWhenFree(options, index);
  return new LogStorage(log, index);
}

async function openWhenFree(options: LogStorageOptions, index: SortedIndex): Promise<SegmentLog> {
  for (;;) {
    try {
      return await openSegmentLog({
        directory: options.directory,
        kind: LOG_KIND,
        segmentBytes: options.segmentBytes ?? SEGMENT_BYTES,
        resumesWithRoom: true,
        ...(options.fileSystem ? { fileSystem: options.fileSystem } : {}),
        replay: {
          entry: (bytes, _view, at, length) => {
            const payload = at + ENTRY_HEADER;
            const text = bytes.toString('utf8', payload, payload + length);
            for (const [key, next] of JSON.parse(text) as LoggedChanges) index.apply({ key, next });
          },
          damagedEntry: () => false,
        },
      });
    } catch (error) {
      const isLocked = (error as { code?: unknown }).code === 'ONCE_STORE_LOCKED';
      if (!isLocked || options.waitForLock === undefined) throw error;
      await sleep(LOOK_AGAIN_MS, undefined, { signal: options.waitForLock });
    }
  }
}

/** One change that was appended to the log and is not yet durable. */
interface PendingChange {
  readonly key: string;
  /** JSON, made when the swap was called: nobody can change it meanwhile. `null` removes the key. */
  readonly text: string | null;
  readonly entry: Entry | undefined;
}

/**
 * The index holds what is durable, and reads show nothing else. A swap is checked against the index with all pending
 * changes applied, so that swaps share one durable write. If a write fails, the log also fails every write after it,
 * and the index is still right.
 *
 * After some failures it is not known whether the write is on disk. Then the log stops, and the storage refuses reads
 * too: only opening it again, which replays the log, can tell what it holds.
 */
class LogStorage implements OutboxStorage {
  readonly #log: SegmentLog;
  readonly #index: SortedIndex;
  /** The latest pending change of each key. */
  readonly #pending = new Map<string, PendingChange>();
  /** Settles when nothing that is pending now still is. */
  #lastWrite: Promise<void> = Promise.resolve();
  #copying: Promise<void> | null = null;
  #copyNotBefore = 0;
  #closed = false;

  constructor(log: SegmentLog, index: SortedIndex) {
    this.#log = log;
    this.#index = index;
  }

  async read(keys: readonly string[]): Promise<(Entry | undefined)[]> {
    this.#assertUsable();
    return keys.map((key) => this.#index.get(key));
  }

  async range(query: Parameters<SortedIndex['range']>[0]): ReturnType<OutboxStorage['range']> {
    this.#assertUsable();
    return this.#index.range(query);
  }

  async count(prefix: string): Promise<number> {
    this.#assertUsable();
    return this.#index.count(prefix);
  }

  async swap(changes: readonly Change[]): Promise<boolean> {
    this.#assertUsable();
    while (!this.#agrees(changes)) {
      if (!changes.some(({ key }) => this.#pending.has(key))) return false;
      // The pending change may still fail. A loser that is told now would read the old entry and retry in a busy loop.
      await this.#lastWrite.catch(() => {});
      this.#assertUsable();
    }
    this.#lastWrite = this.#write(changes);
    try {
      await this.#lastWrite;
    } catch (error) {
      throw this.#log.failure === null ? error : inDoubt(this.#log.failure);
    }
    if (this.#copying === null && this.#isWasteful()) this.#copying = this.#tryToCopy();
    return true;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#copying;
    await this.#log.close();
  }

  #agrees(changes: readonly Change[]): boolean {
    return changes.every((change) => {
      const pending = this.#pending.get(change.key);
      return meetsExpectation(pending ? pending.entry : this.#index.get(change.key), change);
    });
  }

  #write(changes: readonly Change[]): Promise<void> {
    const mine = changes.map(({ key, next }): PendingChange => {
      if (next === null) return { key, text: null, entry: undefined };
      return { key, text: JSON.stringify(next), entry: { version: next.version } };
    });
    const payload = encode(mine);
    // Runs inside the log's callbacks: no swap may be checked between the end of a write and this.
    const end = (isDurable: boolean) => {
      for (const change of mine) {
        if (isDurable) this.#index.set(change.key, change.text);
        if (this.#pending.get(change.key) === change) this.#pending.delete(change.key);
      }
    };
    return new Promise((resolve, reject) => {
      this.#log.append({
        byteLength: payload.length,
        encode: (bytes, _view, at) => {
          payload.copy(bytes, at);
        },
        durable: () => {
          end(true);
          resolve();
        },
        failed: (error) => {
          end(false);
          reject(error);
        },
      });
      for (const change of mine) this.#pending.set(change.key, change);
    });
  }

  /** Never rejects: a log that could not be rewritten is kept as it is, and rewritten later. */
  async #tryToCopy(): Promise<void> {
    try {
      await this.#copy();
    } catch {
      this.#copyNotBefore = performance.now() + COPY_AGAIN_MS;
    }
    this.#copying = null;
  }

  #isWasteful(): boolean {
    const segments = [...this.#log.segments()];
    if (segments.length < MANY_SEGMENTS || performance.now() < this.#copyNotBefore) return false;
    const total = segments.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return total >= 2 * this.#index.textLength;
  }

  /** Writes what is still valid once more, and then drops the segments before it. */
  async #copy(): Promise<void> {
    // Everything in the segments before this one is in the index by now.
    const { segment: first } = await this.#log.appendBytes(encode([]));
    let page: Pick<PendingChange, 'key' | 'text'>[] = [];
    for (const [key, text] of this.#index.entries()) {
      // A pending change is before the copy in the log and must not be undone by it. If it fails, the copy fails too.
      page.push(this.#pending.get(key) ?? { key, text });
      // Read and appended without a pause between them, so that no later change is overtaken.
      if (page.length < ENTRIES_PER_COPY) continue;
      await this.#log.appendBytes(encode(page));
      page = [];
      if (this.#closed) return;
    }
    if (page.length > 0) await this.#log.appendBytes(encode(page));
    for (const { number } of [...this.#log.segments()]) {
      if (number < first) await this.#log.dropOldest(number);
    }
  }

  #assertUsable(): void {
    if (this.#closed) throw new ClientError('OUTBOX_CLOSED', 'the storage of the outbox is closed');
    if (this.#log.failure !== null) throw inDoubt(this.#log.failure);
  }
}

function encode(changes: readonly Pick<PendingChange, 'key' | 'text'>[]): Buffer {
  const pairs = changes.map(({ key, text }) => `[${JSON.stringify(key)},${text}]`);
  return Buffer.from(`[${pairs.join()}]`);
}

function inDoubt(cause: Error): ClientError {
  const message = `${cause.message} What was being written may or may not be there.`;
  return new ClientError('STORAGE_FAILED', message, { cause });
}
