import { crc32 } from 'node:zlib';

/**
 * A segment is one sector of header, then batches, each beginning on a sector of its own, then zeros.
 *
 * header  magic 8 · version 4 · checksum 4 · number 8 · kind 8 · log 16 · nonce 8 · first sequence 8 · previous end 8,
 *         written twice in its sector, so that one flipped bit does not cost a segment
 * batch   magic 4 · checksum 4 · byte length 4 · entry count 4 · first sequence 8 · nonce 8, entries, count 4 · end
 * mark 4 entry   payload length 4 · checksum 4 · sequence 8, payload
 *
 * Everything is little-endian. The nonce is random per segment and mixed into every checksum: bytes of another
 * file, of another log or inside a payload are never taken for a batch.
 */
export const SECTOR = 512;
export const FORMAT_VERSION = 1;
export const BATCH_HEADER = 32;
export const BATCH_TRAILER = 8;
export const ENTRY_HEADER = 16;

const SEGMENT_MAGIC = Buffer.from('ONCEWLOG', 'latin1');
const HEADER_BYTES = 72;
const HEADER_COPIES = [0, 256] as const;
const BATCH_MAGIC = 0x68637462;
/** Its last byte, the last of a batch, is not zero: a batch that misses its end shows it. */
const END_MARK = 0xa5c3e1f7;
const TWO_POW_32 = 2 ** 32;

export interface SegmentHeader {
  readonly number: number;
  /** What the log is used for; eight characters at most. */
  readonly kind: string;
  /** The same random 16 bytes in every segment of one log. */
  readonly log: Uint8Array;
  readonly nonce: Nonce;
  readonly firstSequence: number;
  /** The sequence after the last entry before this segment: shows whether a segment in between is missing. */
  readonly previousEnd: number;
}

export interface Nonce {
  readonly low: number;
  readonly high: number;
}

export interface BatchHeader {
  /** From the batch's first byte through its end mark, without padding. */
  readonly byteLength: number;
  readonly count: number;
  readonly firstSequence: number;
}

export function padToSector(length: number): number {
  return Math.ceil(length / SECTOR) * SECTOR;
}

export function writeSequence(view: DataView, at: number, sequence: number): void {
  view.setUint32(at, sequence >>> 0, true);
  view.setUint32(at + 4, Math.floor(sequence / TWO_POW_32), true);
}

export function readSequence(view: DataView, at: number): number {
  return view.getUint32(at + 4, true) * TWO_POW_32 + view.getUint32(at, true);
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

export function encodeSegmentHeader(header: SegmentHeader): Buffer {
  const copy = Buffer.alloc(HEADER_BYTES);
  const view = viewOf(copy);
  SEGMENT_MAGIC.copy(copy, 0);
  view.setUint32(8, FORMAT_VERSION, true);
  writeSequence(view, 16, header.number);
  copy.write(header.kind, 24, 8, 'latin1');
  copy.set(header.log, 32);
  view.setUint32(48, header.nonce.low, true);
  view.setUint32(52, header.nonce.high, true);
  writeSequence(view, 56, header.firstSequence);
  writeSequence(view, 64, header.previousEnd);
  view.setUint32(12, crc32(copy.subarray(16)), true);
  const sector = Buffer.alloc(SECTOR);
  for (const at of HEADER_COPIES) copy.copy(sector, at);
  return sector;
}

export type HeaderFinding =
  | { readonly found: 'header'; readonly header: SegmentHeader }
  | { readonly found: 'nothing' | 'damaged' | 'foreign' }
  | { readonly found: 'version'; readonly version: number };

/** Reads the header from a file's first sector, which may be short, empty, or of another program. */
export function decodeSegmentHeader(sector: Buffer): HeaderFinding {
  let isOurs = false;
  let version = FORMAT_VERSION;
  for (const start of HEADER_COPIES) {
    if (sector.length < start + HEADER_BYTES) continue;
    const copy = sector.subarray(start, start + HEADER_BYTES);
    if (!copy.subarray(0, 8).equals(SEGMENT_MAGIC)) continue;
    isOurs = true;
    const view = viewOf(copy);
    const intact = view.getUint32(12, true) === crc32(copy.subarray(16));
    if (intact && view.getUint32(8, true) === FORMAT_VERSION) {
      return { found: 'header', header: readHeaderFields(copy, view) };
    }
    version = view.getUint32(8, true);
  }
  if (isOurs) {
    return version === FORMAT_VERSION ? { found: 'damaged' } : { found: 'version', version };
  }
  return isZero(sector, 0, sector.length) ? { found: 'nothing' } : { found: 'foreign' };
}

function readHeaderFields(copy: Buffer, view: DataView): SegmentHeader {
  return {
    number: readSequence(view, 16),
    kind: copy.toString('latin1', 24, 32).replace(/\0+$/, ''),
    log: Uint8Array.from(copy.subarray(32, 48)),
    nonce: { low: view.getUint32(48, true), high: view.getUint32(52, true) },
    firstSequence: readSequence(view, 56),
    previousEnd: readSequence(view, 64),
  };
}

export function writeBatchFrame(
  bytes: Buffer,
  view: DataView,
  header: BatchHeader,
  nonce: Nonce,
): void {
  view.setUint32(0, BATCH_MAGIC, true);
  view.setUint32(8, header.byteLength, true);
  view.setUint32(12, header.count, true);
  writeSequence(view, 16, header.firstSequence);
  view.setUint32(24, nonce.low, true);
  view.setUint32(28, nonce.high, true);
  view.setUint32(4, crc32(bytes.subarray(8, BATCH_HEADER)), true);
  view.setUint32(header.byteLength - 8, header.count, true);
  view.setUint32(header.byteLength - 4, END_MARK, true);
}

export function readBatchHeader(
  bytes: Buffer,
  view: DataView,
  at: number,
  nonce: Nonce,
): BatchHeader | null {
  if (at + BATCH_HEADER > bytes.length || view.getUint32(at, true) !== BATCH_MAGIC) return null;
  if (view.getUint32(at + 24, true) !== nonce.low) return null;
  if (view.getUint32(at + 28, true) !== nonce.high) return null;
  if (view.getUint32(at + 4, true) !== crc32(bytes.subarray(at + 8, at + BATCH_HEADER)))
    return null;
  return {
    byteLength: view.getUint32(at + 8, true),
    count: view.getUint32(at + 12, true),
    firstSequence: readSequence(view, at + 16),
  };
}

/** Whether a batch of `count` entries ends at `at` (its end mark begins there). */
export function endsBatch(view: DataView, at: number, count: number): boolean {
  if (at + BATCH_TRAILER > view.byteLength) return false;
  return view.getUint32(at, true) === count && view.getUint32(at + 4, true) === END_MARK;
}

export function checksumEntry(bytes: Buffer, at: number, length: number, nonce: Nonce): number {
  return crc32(bytes.subarray(at + 8, at + ENTRY_HEADER + length), nonce.low);
}

/** The payload length of the entry at `at` if it is intact, ends by `end`, and is the one expected; else -1. */
export function intactEntry(
  bytes: Buffer,
  view: DataView,
  at: number,
  end: number,
  sequence: number,
  nonce: Nonce,
): number {
  if (at + ENTRY_HEADER > end) return -1;
  const length = view.getUint32(at, true);
  if (at + ENTRY_HEADER + length > end || readSequence(view, at + 8) !== sequence) return -1;
  return checksumEntry(bytes, at, length, nonce) === view.getUint32(at + 4, true) ? length : -1;
}

const ZEROS = Buffer.alloc(64 * 1024);

export function isZero(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at += ZEROS.length) {
    const length = Math.min(ZEROS.length, to - at);
    if (bytes.compare(ZEROS, 0, length, at, at + length) !== 0) return false;
  }
  return true;
}
