import { StoreError } from '../../engine/errors.ts';
import type { OperationId, RecordState, Revision } from '../../engine/record.ts';
import type { NextRecord } from '../../engine/record-store.ts';
import type { EpochMs } from '../../engine/units.ts';

/**
 * What stands under a record's key: revision (8 bytes, big-endian), state (1), due time (8, a double; NaN is never),
 * then the record's bytes. The revision comes first because the swap script compares it without decoding. Where the
 * record was forgotten its highest bit is set, so that nobody can replace it by naming its revision. Where somebody
 * waits for it to change, the bit below is set: see `await.lua.ts`.
 */
export interface StoredValue {
  readonly revision: Revision;
  /** `null`: the record was forgotten; the revision stands here for a while so that the next one is higher. */
  readonly state: RecordState | null;
  readonly dueAt: EpochMs | null;
  readonly bytes: Uint8Array;
}

export const HEAD_BYTES = 17;

const TWO_TO_32 = 2 ** 32;
/** In the upper half of a revision, where no safe integer reaches. */
const FORGOTTEN = 0x8000_0000;
const MARKS = FORGOTTEN | 0x4000_0000;
const NO_BYTES = new Uint8Array(0);
const STATES: readonly (RecordState | null)[] = [
  null,
  'pending',
  'committed',
  'rejected',
  'in_doubt',
];

/** What the swap script compares. */
export function encodeHead(revision: Revision, forgotten: boolean): Buffer {
  return writeRevision(Buffer.allocUnsafe(8), revision, forgotten);
}

/** `next: null` leaves the mark of a forgotten record. */
export function encodeValue(next: NextRecord | null, revision: Revision): Buffer {
  const bytes = next === null ? NO_BYTES : next.bytes;
  const buffer = Buffer.allocUnsafe(HEAD_BYTES + bytes.length);
  writeRevision(buffer, revision, next === null);
  buffer[8] = next === null ? 0 : STATES.indexOf(next.state);
  buffer.writeDoubleBE(next?.dueAt ?? Number.NaN, 9);
  buffer.set(bytes, HEAD_BYTES);
  return buffer;
}

export function decodeValue(buffer: Buffer): StoredValue {
  const state = STATES[buffer[8] ?? STATES.length];
  if (buffer.length < HEAD_BYTES || state === undefined) {
    throw new StoreError(
      'ONCE_RECORD_UNREADABLE',
      'a key of the store holds something else than a record; look at it before removing it',
      { applied: 'no' },
    );
  }
  const dueAt = buffer.readDoubleBE(9);
  return {
    revision: (buffer.readUInt32BE(0) & ~MARKS) * TWO_TO_32 + buffer.readUInt32BE(4),
    state,
    dueAt: Number.isNaN(dueAt) ? null : dueAt,
    bytes: buffer.subarray(HEAD_BYTES),
  };
}

function writeRevision(buffer: Buffer, revision: Revision, forgotten: boolean): Buffer {
  const high = Math.floor(revision / TWO_TO_32);
  buffer.writeUInt32BE(forgotten ? (high | FORGOTTEN) >>> 0 : high, 0);
  buffer.writeUInt32BE(revision % TWO_TO_32, 4);
  return buffer;
}

/**
 * One key per operation. The braces make all of it one hash slot of a cluster, and the length of the scope in front
 * keeps `('a', 'bc')` and `('ab', 'c')` apart.
 */
export function keyOf(prefix: string, id: OperationId): string {
  return `${prefix}{${id.scope.length}:${id.scope}${id.key}}`;
}

/** The operation that a key names, or `null` when it is no record's key. */
export function idOf(prefix: string, key: string): OperationId | null {
  const inside = key.slice(prefix.length + 1, -1);
  const colon = inside.indexOf(':');
  const length = Number(inside.slice(0, colon));
  if (colon < 1 || !Number.isInteger(length) || !key.startsWith(`${prefix}{`)) return null;
  const at = colon + 1;
  return { scope: inside.slice(at, at + length), key: inside.slice(at + length) };
}

/** A SCAN pattern for all records, or for those of one scope. */
export function patternOf(prefix: string, scope: string | undefined): string {
  const start = scope === undefined ? `${prefix}{` : `${prefix}{${scope.length}:${scope}`;
  return `${start.replace(/[\\*?[\]^-]/g, '\\$&')}*`;
}
