import type { OperationId, RecordState } from '../../engine/record.ts';
import type { IdBytes } from './id-bytes.ts';

/**
 * What the wal store appends to its log. All numbers are little-endian.
 *
 * record  kind 1 · state 1 · scope length 2 · key length 2 · unused 2 · hash 8 · scope hash 4 · unused 4 · revision
 * 8 · due 8,
 *         scope, key, the record's bytes
 * forget  kind 1 · unused 7, then for each record forgotten: hash 8 · revision 8
 *
 * A written record's revision is its own sequence in the log, and its revision field names the one that it replaced
 * (0: none). A record that was moved out of an old segment keeps its revision, and the field says which. So
 * a replay knows which row an entry concerns without comparing ids. The hash also proves the id of a damaged entry.
 */
export const RECORD_HEADER = 40;
export const FORGET_HEADER = 8;
export const FORGET_ITEM = 16;

export const WRITTEN = 0x11;
export const MOVED = 0x22;
export const FORGOTTEN = 0x44;

/** Rows and entries hold states as numbers: 1 and up, in this order. */
export const STATES: readonly RecordState[] = ['pending', 'committed', 'rejected', 'in_doubt'];
export const PENDING = 1;
export const COMMITTED = 2;
export const REJECTED = 3;
export const IN_DOUBT = 4;

export function stateNumber(state: RecordState): number {
  switch (state) {
    case 'pending':
      return 1;
    case 'committed':
      return COMMITTED;
    case 'rejected':
      return REJECTED;
    default:
      return IN_DOUBT;
  }
}

export function writeRecord(
  target: Buffer,
  view: DataView,
  at: number,
  id: IdBytes,
  state: number,
  dueAt: number,
  previous: number,
  bytes: Uint8Array,
): void {
  view.setUint8(at, WRITTEN);
  view.setUint8(at + 1, state);
  view.setUint16(at + 2, id.scopeLength, true);
  view.setUint16(at + 4, id.keyLength, true);
  view.setUint16(at + 6, 0, true);
  view.setUint32(at + 8, id.hash1, true);
  view.setUint32(at + 12, id.hash2, true);
  view.setUint32(at + 16, id.scopeHash, true);
  view.setUint32(at + 20, 0, true);
  view.setFloat64(at + 24, previous, true);
  view.setFloat64(at + 32, dueAt, true);
  const from = at + RECORD_HEADER;
  const { length } = id;
  for (let index = 0; index < length; index++) target[from + index] = id.bytes[index] as number;
  target.set(bytes, from + length);
}

/** Rewrites a record's entry as one that was moved, in its own buffer. */
export function markMoved(payload: Buffer, state: number, revision: number, dueAt: number): void {
  payload[0] = MOVED;
  payload[1] = state;
  payload.writeDoubleLE(revision, 24);
  payload.writeDoubleLE(dueAt, 32);
}

export function writeForgetItem(
  view: DataView,
  at: number,
  hash1: number,
  hash2: number,
  revision: number,
): void {
  view.setUint32(at, hash1, true);
  view.setUint32(at + 4, hash2, true);
  view.setFloat64(at + 8, revision, true);
}

export function stateOf(payload: Buffer): number {
  return payload[1] as number;
}

export function dueAtOf(payload: Buffer): number {
  return payload.readDoubleLE(32);
}

export function scopeLengthOf(payload: Buffer): number {
  return payload.readUInt16LE(2);
}

export function keyLengthOf(payload: Buffer): number {
  return payload.readUInt16LE(4);
}

export function idOf(payload: Buffer): OperationId {
  const middle = RECORD_HEADER + scopeLengthOf(payload);
  const end = middle + keyLengthOf(payload);
  return {
    scope: payload.toString('utf8', RECORD_HEADER, middle),
    key: payload.toString('utf8', middle, end),
  };
}

export function bytesOf(payload: Buffer): Buffer {
  return payload.subarray(RECORD_HEADER + scopeLengthOf(payload) + keyLengthOf(payload));
}

/** Whether the id in a payload that may be damaged is intact: it matches the hash that was stored with it. */
export function hasReadableId(payload: Buffer, scratch: IdBytes): boolean {
  if (payload.length < RECORD_HEADER) return false;
  const scopeLength = scopeLengthOf(payload);
  const keyLength = keyLengthOf(payload);
  if (RECORD_HEADER + scopeLength + keyLength > payload.length) return false;
  scratch.hash(payload, RECORD_HEADER, scopeLength, keyLength);
  return scratch.hash1 === payload.readUInt32LE(8) && scratch.hash2 === payload.readUInt32LE(12);
}
