import { StoreError } from 'onceward';
import {
  type FileSystem,
  openSegmentLog,
  type LogEntry as SegmentEntry,
  type SegmentLog,
} from 'onceward/segment-log';
import type { AppendResult, LedgerLog, LogRecord } from './ledger-log.ts';

/** index 8 · term 8 · text. */
const HEAD_BYTES = 16;
/** What the segment log puts before each payload. */
const FRAME_BYTES = 16;

export interface EmbeddedLogOptions {
  readonly directory: string;
  readonly fileSystem?: FileSystem;
  readonly segmentBytes?: number;
}

interface Place {
  readonly segment: number;
  readonly offset: number;
  readonly byteLength: number;
}

/** The log on one machine: the segment log, whose group commit makes every batch durable with one write. */
export class EmbeddedLog implements LedgerLog {
  readonly maxEntryLength = 8 * 1_024 * 1_024;
  readonly #log: SegmentLog;
  /** Where each entry is, from `#firstIndex` on. */
  readonly #places: Place[];
  #firstIndex: number;
  #lastTerm: number;
  /** Including what is not yet on disk. */
  #nextIndex: number;
  #nextTerm: number;

  private constructor(log: SegmentLog, found: Replay) {
    this.#log = log;
    this.#places = found.places;
    this.#firstIndex = found.firstIndex;
    this.#lastTerm = found.lastTerm;
    this.#nextIndex = this.lastIndex + 1;
    this.#nextTerm = found.lastTerm;
  }

  static async open(options: EmbeddedLogOptions): Promise<EmbeddedLog> {
    const replay = new Replay();
    const log = await openSegmentLog({ ...options, kind: 'ledger', replay });
    return new EmbeddedLog(log, replay);
  }

  get firstIndex(): number {
    return this.#firstIndex;
  }

  get lastIndex(): number {
    return this.#firstIndex + this.#places.length - 1;
  }

  get lastTerm(): number {
    return this.#lastTerm;
  }

  get byteLength(): number {
    let sum = 0;
    for (const { byteLength } of this.#log.segments()) sum += byteLength;
    return sum;
  }

  append(record: LogRecord): Promise<AppendResult> {
    if (record.index !== this.#nextIndex || record.term < this.#nextTerm) {
      return Promise.resolve({ appended: false, term: this.#nextTerm });
    }
    this.#nextIndex += 1;
    this.#nextTerm = record.term;
    return new Promise((resolve, reject) => {
      const text = Buffer.from(record.text);
      const byteLength = HEAD_BYTES + text.length;
      const entry: SegmentEntry = {
        byteLength,
        encode(bytes, view, at) {
          writeCount(view, at, record.index);
          writeCount(view, at + 8, record.term);
          bytes.set(text, at + HEAD_BYTES);
        },
        durable: (segment, offset) => {
          this.#places.push({ segment, offset, byteLength });
          this.#lastTerm = record.term;
          resolve(APPENDED);
        },
        failed: reject,
      };
      this.#log.append(entry);
    });
  }

  async *read(from: number): AsyncIterable<LogRecord> {
    for (let index = Math.max(from, this.#firstIndex); index <= this.lastIndex; index += 1) {
      const place = this.#places[index - this.#firstIndex] as Place;
      const { payload, isIntact } = await this.#log.read(
        place.segment,
        place.offset,
        place.byteLength,
      );
      if (!isIntact) {
        throw unreadable(`Entry ${index} of the ledger's log does not match its checksum.`);
      }
      const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
      const text = payload.toString('utf8', HEAD_BYTES);
      yield { index: readCount(view, 0), term: readCount(view, 8), text };
    }
  }

  /** Only whole segments go, and never the one that is being written. */
  async trim(through: number): Promise<void> {
    const numbers = [...this.#log.segments()].map(({ number }) => number);
    for (const segment of numbers.slice(0, -1)) {
      const next = this.#places.findIndex((place) => place.segment !== segment);
      const kept = next < 0 ? this.#places.length : next;
      const isOurs = this.#places[0]?.segment === segment;
      if (isOurs && this.#firstIndex + kept - 1 > through) return;
      await this.#log.dropOldest(segment);
      if (!isOurs) continue;
      this.#places.splice(0, kept);
      this.#firstIndex += kept;
    }
  }

  close(): Promise<void> {
    return this.#log.close();
  }
}

const APPENDED: AppendResult = { appended: true };

/** Learns where the entries are; they are read back when someone wants them. */
class Replay {
  readonly places: Place[] = [];
  firstIndex = 1;
  lastTerm = 0;

  entry(
    _bytes: Buffer,
    view: DataView,
    at: number,
    length: number,
    _sequence: number,
    segment: number,
  ): void {
    const index = readCount(view, at + FRAME_BYTES);
    if (this.places.length === 0) this.firstIndex = index;
    if (index !== this.firstIndex + this.places.length) {
      const missing = this.firstIndex + this.places.length;
      throw unreadable(`The ledger's log has entry ${index} where entry ${missing} should be.`);
    }
    this.places.push({ segment, offset: at, byteLength: length });
    this.lastTerm = readCount(view, at + FRAME_BYTES + 8);
  }

  /** An entry whose text is damaged cannot be applied, whatever else is known of it. */
  damagedEntry(): boolean {
    return false;
  }
}

/** No entry may be left out: whatever came after it was decided with it. */
function unreadable(what: string): StoreError {
  const message = `${what} Restore the ledger's folder from a backup.`;
  return new StoreError('ONCE_RECORD_UNREADABLE', message, { applied: 'no' });
}

function writeCount(view: DataView, at: number, count: number): void {
  view.setUint32(at, count >>> 0, true);
  view.setUint32(at + 4, Math.floor(count / 2 ** 32), true);
}

function readCount(view: DataView, at: number): number {
  return view.getUint32(at + 4, true) * 2 ** 32 + view.getUint32(at, true);
}
