import type { StoreError } from '../engine/errors.ts';
import {
  BATCH_HEADER,
  BATCH_TRAILER,
  checksumEntry,
  ENTRY_HEADER,
  type Nonce,
  padToSector,
  viewOf,
  writeBatchFrame,
  writeSequence,
} from './segment-format.ts';

/** One thing to append, and what to do when it is durable. Its callbacks must not throw. */
export interface LogEntry {
  readonly byteLength: number;
  /** Called at once; writes `byteLength` bytes from `at` on, all of them: what is there before is rubbish. */
  encode(bytes: Buffer, view: DataView, at: number, sequence: number): void;
  durable(segment: number, offset: number, sequence: number): void;
  /** The entry may be on disk if the error says `applied: 'unknown'`. */
  failed(error: StoreError): void;
}

/** What is gathered while the batch before it is being written. */
export class Batch {
  #bytes: Buffer;
  #view: DataView;
  #used = BATCH_HEADER;
  #firstSequence = 0;
  readonly #entries: LogEntry[] = [];
  readonly #offsets: number[] = [];

  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafeSlow(padToSector(capacity));
    this.#view = viewOf(this.#bytes);
  }

  get count(): number {
    return this.#entries.length;
  }

  get used(): number {
    return this.#used;
  }

  get capacity(): number {
    return this.#bytes.length;
  }

  get firstSequence(): number {
    return this.#firstSequence;
  }

  /** How much of a segment it will take. */
  get sealedLength(): number {
    return padToSector(this.#used + BATCH_TRAILER);
  }

  /** Makes it ready to be filled again; `sequence` is that of its first entry. */
  reset(sequence: number): void {
    this.#used = BATCH_HEADER;
    this.#firstSequence = sequence;
    this.#entries.length = 0;
    this.#offsets.length = 0;
  }

  add(entry: LogEntry, sequence: number): void {
    const { byteLength } = entry;
    const at = this.#used;
    const end = at + ENTRY_HEADER + byteLength;
    if (end + BATCH_TRAILER > this.#bytes.length) this.#grow(end + BATCH_TRAILER);
    this.#view.setUint32(at, byteLength, true);
    writeSequence(this.#view, at + 8, sequence);
    entry.encode(this.#bytes, this.#view, at + ENTRY_HEADER, sequence);
    this.#entries.push(entry);
    this.#offsets.push(at);
    this.#used = end;
  }

  /** The bytes to write. Checksums are made only now, when it is known which segment they go to. */
  seal(nonce: Nonce): Buffer {
    for (const at of this.#offsets) {
      const length = this.#view.getUint32(at, true);
      this.#view.setUint32(at + 4, checksumEntry(this.#bytes, at, length, nonce), true);
    }
    const byteLength = this.#used + BATCH_TRAILER;
    const header = { byteLength, count: this.count, firstSequence: this.#firstSequence };
    writeBatchFrame(this.#bytes, this.#view, header, nonce);
    const sealedLength = padToSector(byteLength);
    this.#bytes.fill(0, byteLength, sealedLength);
    return this.#bytes.subarray(0, sealedLength);
  }

  announce(segment: number, position: number): void {
    for (let index = 0; index < this.#entries.length; index++) {
      const offset = position + (this.#offsets[index] as number);
      (this.#entries[index] as LogEntry).durable(segment, offset, this.#firstSequence + index);
    }
  }

  fail(error: StoreError): void {
    for (const entry of this.#entries) entry.failed(error);
  }

  #grow(needed: number): void {
    const bytes = Buffer.allocUnsafeSlow(padToSector(Math.max(needed, this.#bytes.length * 2)));
    this.#bytes.copy(bytes, 0, 0, this.#used);
    this.#bytes = bytes;
    this.#view = viewOf(bytes);
  }
}
