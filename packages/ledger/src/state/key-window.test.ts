import { describe, expect, it } from 'vitest';
import type { Location } from './key-table.ts';
import { KeyTable, packLocation } from './key-table.ts';
import { KeyWindow } from './key-window.ts';

const MINUTE = 60_000;
const ANY = () => true;

describe('a window of keys', () => {
  it('finds 50,000 keys where they were used, and no others', () => {
    const window = new KeyWindow(7);
    for (let n = 0; n < 50_000; n += 1) {
      window.add('ak', `key-${n}`, n, 10_000, { height: 1 + n, position: n % 500 });
    }
    expect(window.size).toBe(50_000);
    let found = 0;
    let mistaken = 0;
    for (let n = 0; n < 50_000; n += 1) {
      const location = window.find('ak', `key-${n}`, (at) => at.height === 1 + n);
      if (location?.position === n % 500) found += 1;
      if (window.find('ak', `other-${n}`, ANY) !== undefined) mistaken += 1;
    }
    expect([found, mistaken]).toEqual([50_000, 0]);
  });

  it('keeps scope and key apart', () => {
    const window = new KeyWindow(7);
    window.add('ab', 'c', 0, MINUTE, { height: 1, position: 0 });
    expect(window.find('a', 'bc', ANY)).toBeUndefined();
    expect(window.find('ab', 'c', ANY)).toBeDefined();
  });

  it('[L4] forgets a whole interval once its youngest key is out of the window', () => {
    const window = new KeyWindow(7);
    window.add('ak', 'first', 0, 5 * MINUTE, { height: 1, position: 0 });
    window.add('ak', 'last', 5 * MINUTE - 1, 5 * MINUTE, { height: 2, position: 0 });
    window.forget(65 * MINUTE - 1, 60 * MINUTE);
    expect(window.size).toBe(2);
    window.forget(65 * MINUTE, 60 * MINUTE);
    expect(window.size).toBe(0);
  });

  it('is the same after it was taken and restored', () => {
    const window = new KeyWindow(7);
    const restored = new KeyWindow(7);
    for (let n = 0; n < 1_000; n += 1) {
      window.add('ak', `key-${n}`, n * 100, MINUTE, { height: 2 ** 40 + n, position: 65_535 });
      if (n % 300 === 0) for (const run of window.takeFresh()) restored.restore(run);
    }
    for (const run of window.takeFresh()) restored.restore(run);
    expect(restored.size).toBe(1_000);
    const expected = { height: 2 ** 40 + 999, position: 65_535 };
    expect(restored.find('ak', 'key-999', ANY)).toEqual(expected);
  });
});

describe('a table of hashes', () => {
  it('keeps several locations under one hash', () => {
    const table = new KeyTable();
    const locations: Location[] = [1, 2, 3].map((height) => ({ height, position: 0 }));
    for (const location of locations) table.add(5, 6, ...packLocation(location));
    expect(table.find(5, 6)).toEqual(locations);
    expect(table.find(5, 7)).toEqual([]);
  });
});
