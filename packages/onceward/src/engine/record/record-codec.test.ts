import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { OperationRecord } from '../record.ts';
import { decodeRecord, encodeRecord } from './record-codec.ts';

const text = (max: number) => fc.string({ unit: 'grapheme', maxLength: max });
const time = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const bytes = fc.uint8Array({ maxLength: 200 });
const id = fc.record({ scope: text(20), key: text(20) });
const base = {
  fingerprint: text(64),
  owner: text(30),
  attempt: fc.integer({ min: 1, max: 0xffff_ffff }),
  createdAt: time,
  steps: fc.array(fc.record({ name: text(10), bytes }), { maxLength: 4 }),
  fence: time,
};
const record: fc.Arbitrary<OperationRecord> = fc.oneof(
  fc.record({
    ...base,
    state: fc.constant('pending' as const),
    leaseUntil: time,
    keepUntil: time,
    onLapse: fc.constantFrom('take_over' as const, 'in_doubt' as const),
  }),
  fc.record({
    ...base,
    state: fc.constantFrom('committed' as const, 'rejected' as const),
    outcome: fc.record({
      contentType: text(30),
      codec: fc.integer({ min: 0, max: 255 }),
      size: fc.integer({ min: 0, max: 1_000_000 }),
      bytes,
    }),
    settledAt: time,
    keepUntil: time,
    resolution: fc.option(fc.record({ by: text(10), reason: text(40) })),
  }),
  fc.record({
    ...base,
    state: fc.constant('in_doubt' as const),
    reason: fc.constantFrom('lease_lapsed' as const, 'unreadable' as const),
    since: time,
  }),
);

describe('record codec', () => {
  it('returns every record as it was written', () => {
    fc.assert(
      fc.property(id, record, (name, written) => {
        expect(decodeRecord(name, encodeRecord(name, written))).toEqual(written);
      }),
    );
  });

  it('[E10] finds any single flipped bit unreadable', () => {
    fc.assert(
      fc.property(id, record, fc.nat(), (name, written, at) => {
        const damaged = encodeRecord(name, written);
        const bit = at % (damaged.length * 8);
        damaged[bit >> 3]! ^= 1 << (bit & 7);
        expect(decodeRecord(name, damaged)).toBeNull();
      }),
      { numRuns: 500 },
    );
  });

  it('[E10] finds a record that was cut short, or that has bytes to spare, unreadable', () => {
    fc.assert(
      fc.property(id, record, fc.nat(), (name, written, length) => {
        const whole = encodeRecord(name, written);
        expect(decodeRecord(name, whole.slice(0, length % whole.length))).toBeNull();
        expect(decodeRecord(name, Uint8Array.of(...whole, 0))).toBeNull();
      }),
    );
  });

  it('[E9] finds bytes that belong to another id unreadable', () => {
    fc.assert(
      fc.property(id, id, record, (name, other, written) => {
        fc.pre(name.scope !== other.scope || name.key !== other.key);
        expect(decodeRecord(other, encodeRecord(name, written))).toBeNull();
      }),
    );
  });

  it('[E10] finds a record of a newer schema unreadable', () => {
    const name = { scope: 's', key: 'k' };
    const newer = encodeRecord(name, fc.sample(record, { numRuns: 1, seed: 1 })[0]!);
    newer[0] = 2;
    expect(decodeRecord(name, newer)).toBeNull();
  });
});
