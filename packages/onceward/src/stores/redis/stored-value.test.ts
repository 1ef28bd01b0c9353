import { expect, it } from 'vitest';
import type { NextRecord } from '../../engine/record-store.ts';
import { decodeValue, encodeHead, encodeValue } from './stored-value.ts';

const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

it.each([
  ['no bytes', Buffer.alloc(0)],
  ['every byte', everyByte],
  ['many', Buffer.concat(new Array<Buffer>(300).fill(everyByte))],
])('what is stored comes back: %s', (_, bytes) => {
  const next: NextRecord = { bytes, state: 'committed', dueAt: Date.UTC(2030, 0, 1) };
  expect(decodeValue(encodeValue(next, 7))).toEqual({ ...next, revision: 7 });
});

it.each([0, 1, 2 ** 28 - 1, 2 ** 28, 2 ** 49, Number.MAX_SAFE_INTEGER])(
  'a revision comes back, marked or not: %d',
  (revision) => {
    const value = encodeValue({ bytes: everyByte, state: 'pending', dueAt: null }, revision);
    expect(value.subarray(0, 8)).toEqual(encodeHead(revision));
    expect(decodeValue(value)).toMatchObject({ revision, state: 'pending', dueAt: null });
    value[0]! += 32;
    expect(decodeValue(value).revision).toBe(revision);
    const forgotten = encodeValue(null, revision);
    expect(forgotten.subarray(0, 8)).not.toEqual(encodeHead(revision));
    expect(decodeValue(forgotten)).toMatchObject({ revision, state: null, dueAt: null });
  },
);

it('a due time comes back, never earlier than it was', () => {
  const due = (dueAt: number) =>
    decodeValue(encodeValue({ bytes: everyByte, state: 'rejected', dueAt }, 1)).dueAt;
  expect(due(1_000.25)).toBe(1_001);
  expect([due(-1), due(Number.NaN)]).toEqual([0, 0]);
  expect(due(2 ** 48)).toBe(2 ** 48);
});

it.each([
  ['nothing', Buffer.alloc(0)],
  ['too short', Buffer.from('short')],
  ['of no known state', Buffer.from('\0\0\0\0\0\0\0\x01Faaaaaaa')],
  ['of another form', Buffer.from('\0\0\0\0\0\0\0\x01\x02aaaaaaa')],
  ['a sentence', Buffer.from('something else than a record')],
])('a value that is no record is refused: %s', (_, value) => {
  expect(() => decodeValue(value)).toThrow('something else than a record');
});
