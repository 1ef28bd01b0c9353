import { StoreError } from '../../engine/errors.ts';
import type { OperationId, RecordState, Revision } from '../../engine/record.ts';
import type { NextRecord } from '../../engine/record-store.ts';
import type { EpochMs } from '../../engine/units.ts';

/**
 * What stands under a record's key, in ASCII: revision (8 characters of 7 bits each), state and form (1), due time (7;
 * all ones is never), then the record's bytes. The revision comes first because the swap script compares it without
 * decoding. Where the record was forgotten its highest bit is set, so that nobody can replace it by naming its
 * revision. Where somebody waits for it to change, the bit below is set: see `await.lua.ts`.
 *
 * Short bytes are stored as text, a character for each, long ones as they are: drivers hand text on in one piece
 * with the rest of a command, and each row of bytes in a piece of its own, at three times the price.
 */
export interface StoredValue {
  readonly revision: Revision;
  /** `null`: the record was forgotten; the revision stands here for a while so that the next one is higher. */
  readonly state: RecordState | null;
  readonly dueAt: EpochMs | null;
  readonly bytes: Uint8Array;
}

export const HEAD_BYTES = 16;

const MAX_TEXT_BYTES = 4_096;
const NO_BYTES = Buffer.alloc(0);
const STATES: readonly (RecordState | null)[] = [
  null,
  'pending',
  'committed',
  'rejected',
  'in_doubt',
];
/** Marks this form of a value; another one is not taken for a record. */
const FORM = 0x40;
/** Added to the state where bytes are not stored as text. */
const AS_BYTES = 8;

/** Numbers are written in halves of four characters. */
const HALF = 2 ** 28;
/** In the upper half of a revision, where no safe integer reaches; so is the bit below it, for those who wait. */
const FORGOTTEN = 1 << 27;
const WITHOUT_MARKS = 0x1f;
/** In milliseconds: the year 19809. */
const NEVER: EpochMs = 2 ** 49 - 1;

/** What the swap script compares. */
export function encodeHead(revision: Revision, forgotten: boolean): string {
  const high = Math.floor(revision / HALF);
  return fourCharacters(forgotten ? high | FORGOTTEN : high) + fourCharacters(revision % HALF);
}

/** `next: null` leaves the mark of a forgotten record. */
export function encodeValue(next: NextRecord | null, revision: Revision): string | Buffer {
  const bytes = next === null ? NO_BYTES : bufferOf(next.bytes);
  const isText = bytes.length <= MAX_TEXT_BYTES;
  const state = next === null ? 0 : STATES.indexOf(next.state);
  const due = next?.dueAt ?? NEVER;
  const dueAt = due > 0 ? Math.min(Math.ceil(due), NEVER) : 0;
  // The upper half of a due time has three characters, so that state and form have room before it.
  const form = FORM + (isText ? state : state + AS_BYTES);
  const formAndDue = form * 2 ** 21 + Math.floor(dueAt / HALF);
  const head =
    encodeHead(revision, next === null) + fourCharacters(formAndDue) + fourCharacters(dueAt % HALF);
  return isText
    ? head + bytes.toString('latin1')
    : Buffer.concat([Buffer.from(head, 'latin1'), bytes]);
}

export function decodeValue(buffer: Buffer): StoredValue {
  const form = (buffer[8] ?? 0) - FORM;
  const state = form < 0 || form >= 2 * AS_BYTES ? undefined : STATES[form % AS_BYTES];
  if (buffer.length < HEAD_BYTES || state === undefined) {
    throw new StoreError(
      'ONCE_RECORD_UNREADABLE',
      'a key of the store holds something else than a record; look at it before removing it',
      { applied: 'no' },
    );
  }
  const dueAt = readNumber(buffer, 9, 16);
  return {
    revision: (buffer[0]! & WITHOUT_MARKS) * 2 ** 49 + readNumber(buffer, 1, 8),
    state,
    dueAt: dueAt === NEVER ? null : dueAt,
    bytes:
      form < AS_BYTES
        ? Buffer.from(buffer.toString('utf8', HEAD_BYTES), 'latin1')
        : buffer.subarray(HEAD_BYTES),
  };
}

function fourCharacters(number: number): string {
  return String.fromCharCode(
    number >>> 21,
    (number >>> 14) & 0x7f,
    (number >>> 7) & 0x7f,
    number & 0x7f,
  );
}

function readNumber(buffer: Buffer, start: number, end: number): number {
  let number = 0;
  for (let at = start; at < end; at += 1) number = number * 128 + buffer[at]!;
  return number;
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
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
