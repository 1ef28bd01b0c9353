import { describe, expect, it } from 'vitest';
import { hashKey } from './key-hash.ts';
import { KeyWindow } from './key-window.ts';

const MINUTE = 60_000;
const hashOf = (scope: string, key: string) => hashKey('secret', scope, key);

function add(window: KeyWindow, key: string, at: number, height: number, interval = MINUTE): void {
  window.add(hashOf('ak', key), at, interval, { height, position: 0 });
}

describe('a window of keys', () => {
  it('[L9] finds 50,000 keys where and when they were used, and no others', () => {
    const window = new KeyWindow();
    for (let n = 0; n < 50_000; n += 1) {
      const location = { height: 1 + n, position: n % 500 };
      window.add(hashOf('ak', `key-${n}`), n, 10_000, location);
    }
    expect(window.size).toBe(50_000);
    let found = 0;
    let mistaken = 0;
    for (let n = 0; n < 50_000; n += 1) {
      const use = window.find(hashOf('ak', `key-${n}`), 0);
      if (use?.position === n % 500 && use.height === 1 + n && use.at === n) found += 1;
      if (window.find(hashOf('ak', `other-${n}`), 0) !== undefined) mistaken += 1;
    }
    expect([found, mistaken]).toEqual([50_000, 0]);
  });

  it('keeps scope and key apart, and ledgers with different secrets', () => {
    const window = new KeyWindow();
    window.add(hashOf('ab', 'c'), 0, MINUTE, { height: 1, position: 0 });
    expect(window.find(hashOf('a', 'bc'), 0)).toBeUndefined();
    expect(window.find(hashKey('other', 'ab', 'c'), 0)).toBeUndefined();
    expect(window.find(hashOf('ab', 'c'), 0)).toBeDefined();
  });

  it('[L4] forgets a whole interval once its youngest key is out of the window', () => {
    const window = new KeyWindow();
    add(window, 'first', 0, 1, 5 * MINUTE);
    add(window, 'last', 5 * MINUTE - 1, 2, 5 * MINUTE);
    window.forget(65 * MINUTE - 1, 60 * MINUTE);
    expect(window.size).toBe(2);
    window.forget(65 * MINUTE, 60 * MINUTE);
    expect(window.size).toBe(0);
  });

  it('[L4] knows when a key was used to the millisecond, and its last use of several', () => {
    const window = new KeyWindow();
    for (const [at, height] of [
      [1_000, 1],
      [1_500, 2],
      [70_000, 3],
    ] as const) {
      add(window, 'a', at, height);
      expect(window.find(hashOf('ak', 'a'), at)).toMatchObject({ at, height });
      expect(window.find(hashOf('ak', 'a'), at + 1)).toBeUndefined();
    }
  });

  it('[L9] is the same, to the hash of it, after it was taken in pieces and restored', () => {
    const window = new KeyWindow(2);
    const restored = new KeyWindow(2);
    for (let n = 0; n < 1_000; n += 1) {
      const location = { height: 2 ** 40 + Math.floor(n / 7), position: 65_000 + (n % 7) };
      window.add(hashOf('ak', `key-${n}`), Math.floor(n / 7) * 700, MINUTE, location, [n, -n]);
      if (n % 7 === 6) window.seal();
      if (n % 294 === 6) for (const run of window.takeFresh()) restored.restore(run);
    }
    const sealed = window.seal();
    for (const run of window.takeFresh()) restored.restore(run);
    expect(restored.size).toBe(1_000);
    expect(restored.seal()).toBe(sealed);
    const use = { height: 2 ** 40 + 142, position: 65_005, at: 99_400, more: [999, -999] };
    expect(restored.find(hashOf('ak', 'key-999'), 0)).toEqual(use);
    window.forget(2 * MINUTE, MINUTE);
    expect(window.seal()).not.toBe(sealed);
    restored.forget(2 * MINUTE, MINUTE);
    expect(restored.seal()).toBe(window.seal());
  });

  it('[L9] has another hash if one bit of one key was changed', () => {
    const window = new KeyWindow();
    for (let n = 0; n < 20; n += 1) add(window, `key-${n}`, n, n + 1);
    const sealed = window.seal();
    const [run] = window.takeFresh();
    for (let word = 0; word < (run?.words.length ?? 0); word += 1) {
      const words = Int32Array.from(run?.words ?? []);
      words[word] = (words[word] as number) ^ 1;
      const restored = new KeyWindow();
      restored.restore({ until: MINUTE, words });
      expect(restored.seal()).not.toBe(sealed);
    }
  });
});
