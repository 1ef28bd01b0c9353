import { describe, expect, it } from 'vitest';
import { UnaskedRecords } from './unasked-records.ts';

const id = (key: string, scope = 's') => ({ scope, key });
const bytes = (text: string) => new TextEncoder().encode(text);
const text = (record: Uint8Array | null) => record && new TextDecoder().decode(record);

describe('records that nobody has asked for', () => {
  it('[E8] are given once, as they were put', () => {
    const records = new UnaskedRecords('secret', 100);
    expect(records.put(id('a'), bytes('one'), 10)).toBe(true);
    expect(records.put(id('b'), bytes('two'), 10)).toBe(true);
    expect(records.count).toBe(2);
    expect(text(records.take(id('a'), 9))).toBe('one');
    expect(records.take(id('a'), 9)).toBeNull();
    expect(text(records.take(id('b'), 9))).toBe('two');
    expect(records.count).toBe(0);
  });

  it('[E8] are not given when their retention has ended', () => {
    const records = new UnaskedRecords('secret', 100);
    records.put(id('a'), bytes('one'), 10);
    expect(records.take(id('a'), 10)).toBeNull();
    expect(records.count).toBe(0);
  });

  it('[E9] are never given to another operation, though there be two places for all', () => {
    const records = new UnaskedRecords('secret', 1);
    records.put({ scope: 'a', key: 'bc' }, bytes('one'), 10);
    for (const other of [id('bc'), id('c', 'ab'), id('abc', ''), id('', 'abc'), id('bd', 'a')]) {
      expect(records.take(other, 0)).toBeNull();
    }
    expect(text(records.take({ scope: 'a', key: 'bc' }, 0))).toBe('one');
    records.put(id('x'), bytes('two'), 10);
    records.put(id('y'), bytes('three'), 10);
    records.put(id('z'), bytes('four'), 10);
    expect(records.take(id('x'), 0)).toBeNull();
    expect(text(records.take(id('y'), 0))).toBe('three');
    expect(text(records.take(id('z'), 0))).toBe('four');
    expect(records.count).toBe(0);
  });

  it('[E8] are refused when they are long or their id is not plain, and disturb nobody', () => {
    const records = new UnaskedRecords('secret', 100);
    records.put(id('a'), bytes('one'), 10);
    expect(records.put(id('b'), new Uint8Array(10_000), 10)).toBe(false);
    expect(records.put(id('ключ'), bytes('two'), 10)).toBe(false);
    expect(records.put(id('c', 'scope\ud800'), bytes('two'), 10)).toBe(false);
    expect(text(records.take(id('a'), 0))).toBe('one');
    expect(records.take(id('ключ'), 0)).toBeNull();
  });

  it('[E8] go by the shelf, the oldest first, and what takes their memory is not taken for them', () => {
    const records = new UnaskedRecords('secret', 100_000);
    const total = 20_000;
    let dropped = 0;
    for (let i = 0; i < total; i += 1) {
      records.put(id(`k${i}`), bytes(`record ${i} ${'x'.repeat(i % 200)}`), 10);
      if (records.byteLength > 8 * 65_536) dropped += records.dropOldest();
    }
    expect(records.byteLength).toBe(8 * 65_536);
    const kept = records.count;
    let found = 0;
    for (let i = 0; i < total; i += 1) {
      const record = text(records.take(id(`k${i}`), 0));
      if (record === null) continue;
      expect(record).toBe(`record ${i} ${'x'.repeat(i % 200)}`);
      found += 1;
    }
    expect(found).toBe(kept);
    expect(dropped + kept).toBeLessThanOrEqual(total);
    expect(dropped + kept).toBeGreaterThan(0.98 * total);
    expect(records.count).toBe(0);
  });
});
