import { StoreError } from '../../engine/errors.ts';
import type { OperationId, RecordState, Revision } from '../../engine/record.ts';
import type { NextRecord } from '../../engine/record-store.ts';
import type { EpochMs } from '../../engine/units.ts';

/**
 * What stands under a record's key: revision (8 bytes of 7 bits each), state and form (1), due time (7, likewise; all
 * ones is never), then the record's bytes. The revision comes first because the swap script compares it without
 * decoding. Where the record was forgotten its highest bit is set, so that no caller can replace it by naming its
 * revision. Where a caller waits for it to change, the bit below is set: see `await.lua.ts`.
 */
export interface StoredValue {
  readonly revision: Revision;
  /** `null`: the record was forgotten; the revision stands here for a while so that the next one is higher. */
  readonly state: RecordState | null;
  readonly dueAt: EpochMs | null;
  readonly bytes: Uint8Array;
}

export const REVISION_BYTES = 8;
export const HEAD_BYTES = 16;

const STATES: readonly (RecordState | null)[] = [
  null,
  'pending',
  'committed',
  'rejected',
  'in_doubt',
];
/** Marks this form of a value; another one is not taken for a record. */
const FORM = 0x48;

/** Numbers are written in halves of four bytes. */
const HALF = 2 ** 28;
/** In the upper half of a revision, where no safe integer reaches; so is the bit below it, for those who wait. */
const FORGOTTEN = 1 << 27;
const WITHOUT_MARKS = 0x1f;
/** In milliseconds: the year 19809. */
const NEVER: EpochMs = 2 ** 49 - 1;

/** What the scripts compare. */
export function encodeHead(revision: Revision): Buffer {
  const head = Buffer.allocUnsafe(REVISION_BYTES);
  writeHead(head, 0, revision, false);
  return head;
}

export function writeHead(
  target: Buffer,
  at: number,
  revision: Revision,
  forgotten: boolean,
): void {
  const high = Math.floor(revision / HALF);
  writeHalf(target, at, forgotten ? high | FORGOTTEN : high);
  writeHalf(target, at + 4, revision % HALF);
}

export function valueLength(next: NextRecord | null): number {
  return HEAD_BYTES + (next === null ? 0 : next.bytes.length);
}

/** `next: null` leaves the mark of a forgotten record. */
export function encodeValue(next: NextRecord | null, revision: Revision): Buffer {
  const value = Buffer.allocUnsafe(valueLength(next));
  const due = next?.dueAt ?? NEVER;
  const dueAt = due > 0 ? Math.min(Math.ceil(due), NEVER) : 0;
  writeHead(value, 0, revision, next === null);
  // The upper half of a due time has three bytes; state and form take the place of the fourth.
  writeHalf(value, 8, Math.floor(dueAt / HALF));
  value[8] = FORM + (next === null ? 0 : STATES.indexOf(next.state));
  writeHalf(value, 12, dueAt % HALF);
  if (next !== null) value.set(next.bytes, HEAD_BYTES);
  return value;
}

export function decodeValue(buffer: Buffer): StoredValue {
  const form = (buffer[8] ?? 0) - FORM;
  const state = STATES[form];
  if (buffer.length < HEAD_BYTES || state === undefined) {
    throw new StoreError(
      'ONCE_RECORD_UNREADABLE',
      'a key of the store holds something else than a record; inspect it before removing it',
      { applied: 'no' },
    );
  }
  const dueAt = readNumber(buffer, 9, 16);
  return {
    revision: (buffer[0]! & WITHOUT_MARKS) * 2 ** 49 + readNumber(buffer, 1, 8),
    state,
    dueAt: dueAt === NEVER ? null : dueAt,
    bytes: buffer.subarray(HEAD_BYTES),
  };
}

function writeHalf(target: Buffer, at: number, number: number): void {
  target[at] = number >>> 21;
  target[at + 1] = (number >>> 14) & 0x7f;
  target[at + 2] = (number >>> 7) & 0x7f;
  target[at + 3] = number & 0x7f;
}

function readNumber(buffer: Buffer, start: number, end: number): number {
  let number = 0;
  for (let at = start; at < end; at += 1) number = number * 128 + buffer[at]!;
  return number;
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
