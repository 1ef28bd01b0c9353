import type { Entry, OutboxStorage } from '../../src/client/storages/outbox-storage.ts';

/**
 * What every storage of an outbox must do, in plain code: the same laws run under Node and inside of browsers.
 * Each law gets an empty storage and throws if it is broken.
 */
export const STORAGE_LAWS: Readonly<Record<string, (storage: OutboxStorage) => Promise<void>>> = {
  async 'what is written comes back as it was'(storage) {
    const entry = {
      version: 1,
      text: 'Grüße 世界 😀 \u0000',
      list: [1, null, true],
      deep: { a: -0.5 },
    };
    await storage.swap([{ key: 'a', expected: null, next: entry }]);
    const [back, absent] = await storage.read(['a', 'b']);
    same(back, entry);
    same(absent, undefined);
  },

  async 'a swap is made only over the expected version'(storage) {
    same(await storage.swap([{ key: 'a', expected: null, next: v(1) }]), true);
    same(await storage.swap([{ key: 'a', expected: null, next: v(9) }]), false);
    same(await storage.swap([{ key: 'a', expected: 2, next: v(9) }]), false);
    same(await storage.swap([{ key: 'b', expected: 1, next: v(9) }]), false);
    same(await storage.swap([{ key: 'a', expected: 1, next: v(2) }]), true);
    same(await storage.read(['a', 'b']), [v(2), undefined]);
  },

  async 'a swap changes all or nothing'(storage) {
    await storage.swap([{ key: 'a', next: v(1) }]);
    const won = await storage.swap([
      { key: 'b', expected: null, next: v(1) },
      { key: 'a', expected: 7, next: v(8) },
      { key: 'c', next: v(1) },
    ]);
    same(won, false);
    same(await storage.read(['a', 'b', 'c']), [v(1), undefined, undefined]);
  },

  async 'a swap without an expectation always wins, also one that removes nothing'(storage) {
    same(
      await storage.swap([
        { key: 'a', next: v(5) },
        { key: 'b', next: null },
      ]),
      true,
    );
    same(await storage.swap([{ key: 'a', next: null }]), true);
    same(await storage.read(['a', 'b']), [undefined, undefined]);
  },

  async 'of many swaps with the same expectation one wins'(storage) {
    await storage.swap([{ key: 'a', expected: null, next: v(1) }]);
    const swaps = Array.from({ length: 20 }, () =>
      storage.swap([{ key: 'a', expected: 1, next: v(2) }]),
    );
    same((await Promise.all(swaps)).filter(Boolean).length, 1);
  },

  async 'a range is sorted, begins after the given key and ends with its prefix'(storage) {
    const keys = ['w/b/2', 'w/a/1', 'w/a-b/1', 'w/a/2', 'x/1', 'v/1', 'w/a/10'];
    await storage.swap(keys.map((key) => ({ key, next: v(1) })));
    const range = async (prefix: string, limit: number, after?: string) => {
      const found = await storage.range({
        prefix,
        limit,
        ...(after === undefined ? {} : { after }),
      });
      return found.map(({ key }) => key);
    };
    same(await range('w/', 10), ['w/a-b/1', 'w/a/1', 'w/a/10', 'w/a/2', 'w/b/2']);
    same(await range('w/a/', 10), ['w/a/1', 'w/a/10', 'w/a/2']);
    same(await range('w/', 2, 'w/a/1'), ['w/a/10', 'w/a/2']);
    same(await range('w/', 10, 'w/a/~'), ['w/b/2']);
    same(await range('w/', 10, 'w/'), ['w/a-b/1', 'w/a/1', 'w/a/10', 'w/a/2', 'w/b/2']);
    same(await range('q/', 10), []);
    same(await storage.count('w/'), 5);
    same(await storage.count('w/a/'), 3);
    same(await storage.count('q/'), 0);
  },

  async 'a range is right while entries come and go'(storage) {
    for (let i = 0; i < 50; i += 1) {
      await storage.swap([{ key: `k/${String((i * 37) % 50).padStart(2, '0')}`, next: v(1) }]);
    }
    for (let i = 0; i < 50; i += 2) {
      await storage.swap([{ key: `k/${String(i).padStart(2, '0')}`, next: null }]);
    }
    const left = await storage.range({ prefix: 'k/', limit: 100 });
    same(left.length, 25);
    same(left[3]?.key, 'k/07');
  },

  async 'what was read does not change under the reader'(storage) {
    const entry = { version: 1, list: [1] };
    await storage.swap([{ key: 'a', next: entry }]);
    entry.list.push(2);
    const [back] = (await storage.read(['a'])) as [typeof entry];
    same(back.list, [1]);
    back.list.push(3);
    same(await storage.read(['a']), [{ version: 1, list: [1] }]);
  },
};

function v(version: number): Entry {
  return { version };
}

function same(actual: unknown, expected: unknown): void {
  const [a, b] = [actual, expected].map((value) => JSON.stringify(value) ?? 'undefined');
  if (a !== b) throw new Error(`expected ${b}, found ${a}`);
}
