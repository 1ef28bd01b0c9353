import type { Revision } from '../../engine/record.ts';
import { encodeMessage, type Message } from './protobuf.ts';

/** The part of etcd's v3 API that the store uses, by the field numbers of its published definition. */

export interface KeyValue {
  readonly key: Buffer;
  readonly value: Buffer;
  readonly modRevision: Revision;
}

export interface RangeResult {
  readonly found: readonly KeyValue[];
  readonly more: boolean;
}

export interface TxnResult {
  readonly succeeded: boolean;
  /** The revision of the store after the transaction: the key's own, if it was written. */
  readonly revision: Revision;
  /** What the failed branch read. */
  readonly current: KeyValue | null;
}

const COMPARE_MOD = 2;

export function rangeRequest(key: Uint8Array, end?: Uint8Array, limit = 0): Uint8Array {
  return encodeMessage([1, key], ...(end === undefined ? [] : [[2, end] as const]), [3, limit]);
}

export function putRequest(key: Uint8Array, value: Uint8Array): Uint8Array {
  return encodeMessage([2, encodeMessage([1, key], [2, value])]);
}

export function deleteRequest(key: Uint8Array): Uint8Array {
  return encodeMessage([3, encodeMessage([1, key])]);
}

/**
 * Carries out `write` if `key` was last modified at `expected` (0: it does not exist), else reads it. `EQUAL` is the
 * compare's result by default.
 */
export function swapRequest(key: Uint8Array, expected: Revision, write: Uint8Array): Uint8Array {
  // A zero in a oneof must be written out: left out, it would mean that nothing is compared.
  const modRevision = expected === 0 ? encodeZero(6) : encodeMessage([6, expected]);
  const compare = Buffer.concat([encodeMessage([2, COMPARE_MOD], [3, key]), modRevision]);
  const read = encodeMessage([1, rangeRequest(key)]);
  return encodeMessage([1, compare], [2, write], [3, read]);
}

export function watchRequest(key: Uint8Array, startRevision: Revision): Uint8Array {
  return encodeMessage([1, encodeMessage([1, key], [3, startRevision])]);
}

export function rangeResult(message: Message): RangeResult {
  return { found: message.messages(2).map(keyValueIn), more: message.number(3) === 1 };
}

export function txnResult(message: Message): TxnResult {
  const [response] = message.messages(3);
  const range = response?.message(1);
  const [current] = range === undefined ? [] : rangeResult(range).found;
  return {
    succeeded: message.number(2) === 1,
    revision: message.message(1).number(3),
    current: current ?? null,
  };
}

/** Whether a watch reports a change or its end: either way, the record is to be read. */
export function watchHasNews(message: Message): boolean {
  return message.messages(11).length > 0 || message.number(4) === 1;
}

function keyValueIn(message: Message): KeyValue {
  return { key: message.bytes(1), value: message.bytes(5), modRevision: message.number(3) };
}

function encodeZero(field: number): Uint8Array {
  return Uint8Array.of(field * 8, 0);
}
