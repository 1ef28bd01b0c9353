import type { Damage, DamagedEntry } from './damage.ts';
import {
  BATCH_HEADER,
  BATCH_TRAILER,
  type BatchHeader,
  ENTRY_HEADER,
  endsBatch,
  intactEntry,
  isZero,
  padToSector,
  readBatchHeader,
  SECTOR,
  type SegmentHeader,
  viewOf,
} from './segment-format.ts';

/**
 * Reads a segment after a restart, and distinguishes a torn tail from damage.
 *
 * What makes that possible: a batch is written only after the one before it is durable, each in sectors of its own that
 * held zeros or did not exist. So only the last batch of the last segment can be torn, and what it misses is whole
 * sectors that still read as zeros, or everything from some byte on. So a bad batch is a torn tail only if
 * - nothing valid follows it, in this segment or in a later one, and
 * - something of it is missing: its last byte (never zero when written), or a whole sector, or the file ends.
 * It was never acknowledged, and is cut. Any other bad batch is damage of something that was acknowledged: its good
 * entries are used, the others reported. A flipped bit in the last batch before a crash is distinguished from a torn
 * write by the same rule. (A clean close writes an empty batch, so every earlier one has something valid behind it.)
 */
export interface ReplaySink {
  entry(
    bytes: Buffer,
    view: DataView,
    at: number,
    length: number,
    sequence: number,
    segment: number,
  ): void;
  /** Whether the entry could be saved: if not, the damage counts as a loss. */
  damagedEntry(entry: DamagedEntry): boolean;
  damage(damage: Damage): void;
}

export interface ReplayedSegment {
  /** Where the next batch would begin. */
  readonly end: number;
  readonly nextSequence: number;
  /** Where the last batch begins; 0 if there is none. */
  readonly lastBatchAt: number;
  /** Bytes of a torn tail lie behind `end`, or damage that must be left as it is. */
  readonly tail: 'clean' | 'torn' | 'damaged';
}

export class SegmentReplay {
  readonly #file: string;
  readonly #bytes: Buffer;
  readonly #view: DataView;
  readonly #header: SegmentHeader;
  readonly #isLast: boolean;
  readonly #sink: ReplaySink;
  #at = SECTOR;
  #expected: number;
  #lastBatchAt = 0;

  constructor(
    file: string,
    bytes: Buffer,
    header: SegmentHeader,
    isLast: boolean,
    sink: ReplaySink,
  ) {
    this.#file = file;
    this.#bytes = bytes;
    this.#view = viewOf(bytes);
    this.#header = header;
    this.#isLast = isLast;
    this.#sink = sink;
    this.#expected = header.firstSequence;
  }

  run(): ReplayedSegment {
    for (;;) {
      const at = this.#at;
      if (isZero(this.#bytes, Math.min(at, this.#bytes.length), this.#bytes.length)) {
        return this.#result('clean');
      }
      const batch = readBatchHeader(this.#bytes, this.#view, at, this.#header.nonce);
      const tail = batch ? this.#takeBatch(batch) : this.#takeUnknown();
      if (tail !== null) return this.#result(tail);
    }
  }

  #result(tail: ReplayedSegment['tail']): ReplayedSegment {
    const { length } = this.#bytes;
    const end = tail === 'damaged' ? padToSector(length) : this.#at;
    return { end, nextSequence: this.#expected, lastBatchAt: this.#lastBatchAt, tail };
  }

  #takeBatch(batch: BatchHeader): 'torn' | null {
    const at = this.#at;
    const { byteLength, count, firstSequence } = batch;
    if (firstSequence !== this.#expected) {
      this.#lose(at, 0, firstSequence - this.#expected, 'a batch is missing before this place');
      this.#expected = firstSequence;
    }
    if (this.#isIntact(batch)) {
      this.#deliver(at + BATCH_HEADER, count);
    } else {
      const mayBeTorn =
        this.#isLast && this.#findLaterBatch(at + SECTOR, firstSequence + count) < 0;
      if (mayBeTorn && this.#missesSomething(byteLength)) return 'torn';
      this.#salvage(at + BATCH_HEADER, Math.min(at + byteLength, this.#bytes.length), count);
    }
    this.#lastBatchAt = at;
    this.#at = at + padToSector(byteLength);
    this.#expected = firstSequence + count;
    return null;
  }

  #isIntact({ byteLength, count, firstSequence }: BatchHeader): boolean {
    const end = this.#at + byteLength - BATCH_TRAILER;
    let at = this.#at + BATCH_HEADER;
    if (end + BATCH_TRAILER > this.#bytes.length || !endsBatch(this.#view, end, count))
      return false;
    for (let index = 0; index < count; index++) {
      const length = this.#intactAt(at, end, firstSequence + index);
      if (length < 0) return false;
      at += ENTRY_HEADER + length;
    }
    return at === end;
  }

  #intactAt(at: number, end: number, sequence: number): number {
    return intactEntry(this.#bytes, this.#view, at, end, sequence, this.#header.nonce);
  }

  #deliver(from: number, count: number): void {
    let at = from;
    for (let index = 0; index < count; index++) {
      const length = this.#view.getUint32(at, true);
      this.#deliverOne(at, length, this.#expected + index);
      at += ENTRY_HEADER + length;
    }
  }

  #deliverOne(at: number, length: number, sequence: number): void {
    this.#sink.entry(this.#bytes, this.#view, at, length, sequence, this.#header.number);
  }

  /** A batch whose header is good and whose entries are not all: takes the good ones, reports the others. */
  #salvage(from: number, batchEnd: number, count: number): void {
    const end = batchEnd - BATCH_TRAILER;
    let at = from;
    let index = 0;
    while (index < count) {
      const sequence = this.#expected + index;
      const length = this.#intactAt(at, end, sequence);
      if (length >= 0) {
        this.#deliverOne(at, length, sequence);
        at += ENTRY_HEADER + length;
        index++;
        continue;
      }
      const next =
        index + 1 === count ? end : this.#findEntry(at + ENTRY_HEADER, end, sequence + 1);
      if (next < 0 || next - at < ENTRY_HEADER) {
        this.#lose(at, end - at, count - index, 'entries of a batch are damaged');
        return;
      }
      this.#reportEntry(at, next, sequence);
      at = next;
      index++;
    }
    if (!endsBatch(this.#view, end, count)) {
      this.#lose(end, BATCH_TRAILER, 0, 'the end mark of a batch is damaged');
    }
  }

  #reportEntry(at: number, next: number, sequence: number): void {
    const base = {
      file: this.#file,
      offset: at,
      byteLength: next - at,
      finding: 'an entry does not match its checksum',
      sequence,
    };
    const payload = this.#bytes.subarray(at + ENTRY_HEADER, next);
    const segment = this.#header.number;
    const isSaved = this.#sink.damagedEntry({ ...base, entries: 1, segment, payload });
    this.#sink.damage({ ...base, entries: isSaved ? 0 : 1 });
  }

  #findEntry(from: number, end: number, sequence: number): number {
    for (let at = from; at + ENTRY_HEADER <= end; at++) {
      if (this.#intactAt(at, end, sequence) >= 0) return at;
    }
    return -1;
  }

  /** Something is there that is not a batch header. */
  #takeUnknown(): 'torn' | 'damaged' | null {
    const at = this.#at;
    const later = this.#findLaterBatch(at + SECTOR, this.#expected);
    if (this.#isLast && later < 0 && this.#missesItsHead()) return 'torn';

    const end = later < 0 ? this.#bytes.length : later;
    const first = this.#expected;
    let next = at + BATCH_HEADER;
    for (;;) {
      const length = this.#intactAt(next, end, this.#expected);
      if (length < 0) break;
      this.#deliverOne(next, length, this.#expected);
      this.#expected++;
      next += ENTRY_HEADER + length;
    }
    const isWhole =
      next + BATCH_TRAILER <= end && endsBatch(this.#view, next, this.#expected - first);
    if (isWhole) {
      this.#lose(at, BATCH_HEADER, 0, 'the header of a batch is damaged; its entries are intact');
      this.#lastBatchAt = at;
      this.#at = padToSector(next + BATCH_TRAILER);
      return null;
    }
    if (later < 0) {
      this.#lose(next, end - next, null, 'the rest of the segment cannot be read');
      return 'damaged';
    }
    const { firstSequence } = readBatchHeader(
      this.#bytes,
      this.#view,
      later,
      this.#header.nonce,
    ) as BatchHeader;
    this.#lose(next, end - next, firstSequence - this.#expected, 'entries cannot be read');
    this.#expected = firstSequence;
    this.#at = later;
    return null;
  }

  #missesSomething(byteLength: number): boolean {
    const end = this.#at + byteLength;
    if (end > this.#bytes.length || this.#bytes[end - 1] === 0) return true;
    for (let at = this.#at; at + SECTOR <= end; at += SECTOR) {
      if (isZero(this.#bytes, at, at + SECTOR)) return true;
    }
    return false;
  }

  #missesItsHead(): boolean {
    const at = this.#at;
    const { length } = this.#bytes;
    if (at + BATCH_HEADER >= length || isZero(this.#bytes, at, Math.min(at + SECTOR, length))) {
      return true;
    }
    return isZero(this.#bytes, at + BATCH_HEADER, length);
  }

  #findLaterBatch(from: number, firstSequence: number): number {
    const { nonce } = this.#header;
    for (let at = from; at + BATCH_HEADER <= this.#bytes.length; at += SECTOR) {
      const batch = readBatchHeader(this.#bytes, this.#view, at, nonce);
      if (batch && batch.firstSequence >= firstSequence) return at;
    }
    return -1;
  }

  #lose(offset: number, byteLength: number, entries: number | null, finding: string): void {
    this.#sink.damage({
      file: this.#file,
      offset,
      byteLength,
      finding,
      sequence: this.#expected,
      entries,
    });
  }
}
