import { join } from 'node:path';
import type { OpenFile } from './file-system.ts';
import type { SegmentHeader } from './segment-format.ts';
import { ENTRY_HEADER, intactEntry, readSequence, SECTOR, viewOf } from './segment-format.ts';

const SEGMENT_NAME = /^(\d{12})\.log$/;

export function segmentPath(directory: string, number: number): string {
  return join(directory, `${String(number).padStart(12, '0')}.log`);
}

/** The number in a segment's file name, or `null` if it is not one. */
export function segmentNumber(name: string): number | null {
  const match = SEGMENT_NAME.exec(name);
  return match ? Number(match[1]) : null;
}

export interface ReadEntry {
  readonly payload: Buffer;
  /** The checksum matches. */
  readonly isIntact: boolean;
}

/** One file of the log. It stays open while it lives, so that entries can be read back. */
export class Segment {
  readonly path: string;
  readonly header: SegmentHeader;
  /** Where the next batch goes. */
  end: number;
  readonly #file: OpenFile;
  #readers = 0;
  #isDropped = false;

  constructor(path: string, header: SegmentHeader, file: OpenFile, end = SECTOR) {
    this.path = path;
    this.header = header;
    this.#file = file;
    this.end = end;
  }

  get number(): number {
    return this.header.number;
  }

  get file(): OpenFile {
    return this.#file;
  }

  async read(offset: number, byteLength: number): Promise<ReadEntry> {
    const bytes = Buffer.allocUnsafeSlow(ENTRY_HEADER + byteLength);
    this.#readers++;
    try {
      const count = await this.#file.read(bytes, offset);
      if (count < bytes.length) bytes.fill(0, count);
    } finally {
      this.#readers--;
      if (this.#isDropped && this.#readers === 0) await this.#file.close();
    }
    const view = viewOf(bytes);
    const sequence = readSequence(view, 8);
    const length = intactEntry(bytes, view, 0, bytes.length, sequence, this.header.nonce);
    return { payload: bytes.subarray(ENTRY_HEADER), isIntact: length === byteLength };
  }

  /** Closes the file, after the reads that are in flight. */
  async close(): Promise<void> {
    if (this.#isDropped) return;
    this.#isDropped = true;
    if (this.#readers === 0) await this.#file.close();
  }
}
