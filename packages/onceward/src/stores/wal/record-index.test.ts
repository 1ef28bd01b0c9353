import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RecordIndex } from './record-index.ts';

describe('record index', () => {
  it('finds exactly what was inserted and not removed, also where hashes collide', () => {
    const hash = fc.record({
      hash1: fc.constantFrom(0, 1, 0xff00_0000, 0xffff_ffff),
      hash2: fc.nat(40),
    });
    const steps = fc.array(fc.tuple(hash, fc.boolean()), { maxLength: 400 });
    const property = fc.property(steps, (changes) => {
      const index = new RecordIndex();
      const rows = new Map<number, { hash1: number; hash2: number; revision: number }>();
      let revision = 0;
      for (const [{ hash1, hash2 }, isRemoval] of changes) {
        const found = index.find(hash1, hash2);
        if (isRemoval && found >= 0) {
          index.remove(found);
          rows.delete(found);
        } else {
          rows.set(index.insert(hash1, hash2, 0, ++revision), { hash1, hash2, revision });
        }
        for (const [row, known] of rows) {
          expect(index.findRevision(known.hash1, known.hash2, known.revision)).toBe(row);
        }
        const isKnown = [...rows.values()].some(
          (one) => one.hash1 === hash1 && one.hash2 === hash2,
        );
        expect(index.find(hash1, hash2) >= 0).toBe(isKnown);
      }
    });
    fc.assert(property, { numRuns: 40 });
  });

  it('[J9] uses the rows of removed records again', () => {
    const index = new RecordIndex();
    for (let round = 0; round < 20; round++) {
      const rows = Array.from({ length: 1_000 }, (_, key) =>
        index.insert(key * 7_919, key, 0, key),
      );
      for (const row of rows) index.remove(row);
    }
    expect(index.rows).toBe(1_000);
  });
});
