import { StoreError } from '../../engine/errors.ts';
import type { OperationId, RecordState } from '../../engine/record.ts';
import type { NextRecord, ScannedRecord, StoredRecord } from '../../engine/record-store.ts';
import type { KeyValue } from './etcd-messages.ts';

/** Under a record's key stand its state (1 byte), due time (8, a double; NaN is never), then its bytes. */
const HEAD_BYTES = 9;
const STATES: readonly (RecordState | null)[] = [
  null,
  'pending',
  'committed',
  'rejected',
  'in_doubt',
];

export function encodeValue(next: NextRecord): Buffer {
  const buffer = Buffer.allocUnsafe(HEAD_BYTES + next.bytes.length);
  buffer[0] = STATES.indexOf(next.state);
  buffer.writeDoubleBE(next.dueAt ?? Number.NaN, 1);
  buffer.set(next.bytes, HEAD_BYTES);
  return buffer;
}

export function storedIn({ value, modRevision }: KeyValue): StoredRecord {
  return { revision: modRevision, bytes: value.subarray(HEAD_BYTES) };
}

export function scannedIn(prefix: string, pair: KeyValue): ScannedRecord {
  const state = STATES[pair.value[0] ?? 0];
  const id = idOf(prefix, pair.key.toString());
  if (pair.value.length < HEAD_BYTES || state == null || id === null) {
    throw new StoreError(
      'ONCE_RECORD_UNREADABLE',
      `a key under ${prefix} holds something else than a record; inspect it before removing it`,
      { applied: 'no' },
    );
  }
  const dueAt = pair.value.readDoubleBE(1);
  return { ...storedIn(pair), id, state, dueAt: Number.isNaN(dueAt) ? null : dueAt };
}

/** The length of the scope in front keeps `('a', 'bc')` and `('ab', 'c')` apart. */
export function keyOf(prefix: string, id: OperationId): Buffer {
  return Buffer.from(`${prefix}${id.scope.length}:${id.scope}${id.key}`);
}

/** The first and, exclusively, the last key of all records, or of one scope. */
export function rangeOf(prefix: string, scope: string | undefined): [Buffer, Buffer] {
  const first = Buffer.from(scope === undefined ? prefix : `${prefix}${scope.length}:${scope}`);
  const end = Buffer.from(first);
  // A UTF-8 text never ends in 0xff, so adding one is enough.
  end[end.length - 1] = (end.at(-1) ?? 0) + 1;
  return [first, end];
}

function idOf(prefix: string, key: string): OperationId | null {
  const inside = key.slice(prefix.length);
  const colon = inside.indexOf(':');
  const length = Number(inside.slice(0, colon));
  if (colon < 1 || !Number.isInteger(length)) return null;
  const at = colon + 1;
  return { scope: inside.slice(at, at + length), key: inside.slice(at + length) };
}
