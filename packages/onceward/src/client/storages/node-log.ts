import { setTimeout as sleep } from 'node:timers/promises';
import { openSegmentLog, type SegmentLog } from '../../segment-log/index.ts';
import { ENTRY_HEADER } from '../../segment-log/segment-format.ts';
import { ClientError } from '../client-error.ts';
import { SortedIndex } from './memory.ts';
import type { Change, Entry, OutboxStorage } from './outbox-storage.ts';

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
}

const LOG_KIND = 'outbox';
const SEGMENT_BYTES = 4 * 1_024 * 1_024;
const LOOK_AGAIN_MS = 250;
/** The log is rewritten when it has this many segments and most of what they hold is outdated. */
const MANY_SEGMENTS = 4;
const ENTRIES_PER_COPY = 200;

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

class LogStorage implements OutboxStorage {
  readonly #log: SegmentLog;
  readonly #index: SortedIndex;
  #copying: Promise<void> | null = null;
  #closed = false;

  constructor(log: SegmentLog, index: SortedIndex) {
    this.#log = log;
    this.#index = index;
  }

  async read(keys: readonly string[]): Promise<(Entry | undefined)[]> {
    this.#checkOpen();
    return keys.map((key) => this.#index.get(key));
  }

  async range(query: Parameters<SortedIndex['range']>[0]): ReturnType<OutboxStorage['range']> {
    this.#checkOpen();
    return this.#index.range(query);
  }

  async count(prefix: string): Promise<number> {
    return this.#index.count(prefix);
  }

  /**
   * The index changes at once and the log a moment later. A write that builds on the change in between is logged
   * after it, and is durable only if it is; and a log that fails takes no more writes.
   */
  async swap(changes: readonly Change[]): Promise<boolean> {
    this.#checkOpen();
    if (!this.#index.agrees(changes)) return false;
    this.#log.assertWritable();
    const durable = this.#append(changes.map(({ key, next }) => [key, next] as const));
    for (const change of changes) this.#index.apply(change);
    await durable;
    this.#copying ??= this.#copyIfWasteful().finally(() => {
      this.#copying = null;
    });
    return true;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#copying?.catch(() => {});
    await this.#log.close();
  }

  /** Resolves to the segment that holds the entry, once it is durable there. */
  #append(changes: LoggedChanges): Promise<number> {
    const payload = Buffer.from(JSON.stringify(changes));
    return new Promise((resolve, reject) => {
      this.#log.append({
        byteLength: payload.length,
        encode: (bytes, _view, at) => {
          payload.copy(bytes, at);
        },
        durable: resolve,
        failed: reject,
      });
    });
  }

  /** Writes what is still valid once more, and then drops the segments before it. */
  async #copyIfWasteful(): Promise<void> {
    const segments = [...this.#log.segments()];
    if (segments.length < MANY_SEGMENTS) return;
    const total = segments.reduce((sum, { byteLength }) => sum + byteLength, 0);
    if (total < 2 * this.#index.textLength) return;
    let firstCopy: number | null = null;
    let page: [string, Entry][] = [];
    const flush = async () => {
      const segment = await this.#append(page);
      firstCopy ??= segment;
      page = [];
    };
    for (const [key, text] of this.#index.entries()) {
      page.push([key, JSON.parse(text) as Entry]);
      // Read and appended without a pause between them, so that no later change is overtaken.
      if (page.length === ENTRIES_PER_COPY) await flush();
      if (this.#closed) return;
    }
    if (page.length > 0 || firstCopy === null) await flush();
    for (const { number } of segments) {
      if (number < (firstCopy ?? 0)) await this.#log.dropOldest(number);
    }
  }

  #checkOpen(): void {
    if (this.#closed) throw new ClientError('OUTBOX_CLOSED', 'the storage of the outbox is closed');
  }
}
