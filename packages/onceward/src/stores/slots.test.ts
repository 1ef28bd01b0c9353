import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SlotShards, Slots } from './slots.ts';

/** Few hashes, so that many rows share one, and neighbours, so that rows stand in each other's way. */
const hashes = fc.constantFrom(0, 1, 2, 15, 16, 17, 31, -1, -16, 0x7fff_ffff, -0x8000_0000);
const steps = fc.array(fc.record({ adds: fc.boolean(), hash: hashes, pick: fc.nat() }), {
  maxLength: 300,
});

function rowsOf(slots: Slots, hash: number): number[] {
  const rows: number[] = [];
  for (let at = slots.first(hash); at >= 0; at = slots.next(hash, at)) rows.push(slots.rowAt(at));
  return rows.sort((a, b) => a - b);
}

describe('slots', () => {
  it('finds every row under its hash and no other, whatever was added and removed before', () => {
    fc.assert(
      fc.property(steps, (history) => {
        const slots = new Slots();
        const model = new Map<number, number[]>();
        let row = 0;
        for (const { adds, hash, pick } of history) {
          const held = model.get(hash) ?? [];
          if (adds || held.length === 0) {
            slots.add(hash, row);
            model.set(hash, [...held, row]);
            row += 1;
          } else {
            const gone = held[pick % held.length]!;
            slots.remove(hash, gone);
            model.set(
              hash,
              held.filter((one) => one !== gone),
            );
          }
          for (const [known, rows] of model) expect(rowsOf(slots, known)).toEqual(rows);
        }
      }),
      { numRuns: 100 },
    );
  });

  it('keeps all rows while it grows', () => {
    const slots = new Slots();
    for (let row = 0; row < 10_000; row += 1) slots.add(Math.imul(row, 0x9e37_79b1), row);
    for (let row = 0; row < 10_000; row += 1) {
      expect(rowsOf(slots, Math.imul(row, 0x9e37_79b1))).toEqual([row]);
    }
  });

  it('gives hashes that differ in their highest bits to different tables', () => {
    const shards = new SlotShards();
    expect(shards.of(-1)).toBe(shards.of(-2));
    expect(shards.of(-1)).not.toBe(shards.of(1));
    expect(new Set(Array.from({ length: 256 }, (_, i) => shards.of(i << 24))).size).toBe(256);
  });
});
