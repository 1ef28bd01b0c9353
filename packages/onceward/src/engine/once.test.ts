import { expect, it } from 'vitest';
import { nodePlatform } from '../runtime/node-platform.ts';
import { nodeWorld } from '../runtime/node-world.ts';
import { memoryStore } from '../stores/memory/index.ts';
import { troubledStore } from '../testing/stores/troubled-store.ts';
import { setUp } from './engine.fixture.ts';
import { Engine } from './engine.ts';
import type { OnceResult } from './once.ts';
import { OutcomeUnknown } from './run/attempt.ts';

const cyclic: Record<string, unknown> = {};
cyclic.self = cyclic;

it.each([
  ['a BigInt', 12n],
  ['an object with a BigInt', { total: 12n }],
  ['a cycle', cyclic],
  ['a function', () => 1],
  ['a Map', new Map([['a', 1]])],
])(
  '[E1] an effect that returns %s has run once, and its retry is told that the result was not kept',
  async (_what, value) => {
    const store = memoryStore();
    const engine = new Engine({
      store,
      world: nodeWorld(),
      platform: nodePlatform(),
      sweep: false,
    });
    let runs = 0;
    const run = () =>
      engine.once(
        { scope: 'orders', key: 'k', effect: { kind: 'external', onLapse: 'in_doubt' } },
        async () => {
          runs += 1;
          return value;
        },
      );
    expect(await run()).toBe(value);
    await expect(run()).rejects.toMatchObject({ code: 'ONCE_NOT_RETAINED', retry: 'never' });
    expect(runs).toBe(1);
    expect((await engine.read({ scope: 'orders', key: 'k' }))?.state).toBe('committed');
    await engine.close();
  },
);

it('[E1] an effect that returns nothing returns nothing again', async () => {
  const store = memoryStore();
  const engine = new Engine({ store, world: nodeWorld(), platform: nodePlatform(), sweep: false });
  const run = () =>
    engine.once({ scope: 'a', key: 'k', effect: { kind: 'downstream' } }, async () => undefined);
  expect([await run(), await run()]).toEqual([undefined, undefined]);
  await engine.close();
});

it('[E15] the caller is told whether its value is recorded, replayed, and until when it is kept', async () => {
  const store = troubledStore(memoryStore());
  const { engine, world } = setUp(store);
  const results: OnceResult[] = [];
  const run = (key: string, effect: () => Promise<string>) =>
    engine.once(
      {
        scope: 'a',
        key,
        effect: { kind: 'external', onLapse: 'in_doubt' },
        onResult: (result) => results.push(result),
      },
      effect,
    );
  await run('kept', async () => 'value');
  await run('kept', async () => 'another');
  const unrecorded = run('lost', async () => {
    store.trouble = 'down';
    return 'value';
  });
  expect(await unrecorded).toBe('value');
  await expect(run('refused', async () => 'never')).rejects.toThrow();
  const keptUntil = world.now() + 300_000;
  expect(results).toEqual([
    { replayed: false, recorded: true, attempt: 1, keptUntil },
    { replayed: true, recorded: true, attempt: 1, keptUntil },
    { replayed: false, recorded: false, attempt: 1, keptUntil: null },
  ]);
});

it('[E6] a doubt that was answered with no JSON is told with a code, not as a raw error', async () => {
  const { engine } = setUp(memoryStore());
  const id = { scope: 'a', key: 'k' };
  const once = () =>
    engine.once({ ...id, effect: { kind: 'external', onLapse: 'in_doubt' } }, async () => {
      throw new OutcomeUnknown('nobody knows');
    });
  await expect(once()).rejects.toThrow('nobody knows');
  const outcome = { contentType: 'text/plain', bytes: new TextEncoder().encode('paid, see 17') };
  await engine.resolve(id, {
    as: 'committed',
    outcome,
    keepMs: 60_000,
    by: 'ann',
    reason: 'looked',
  });
  await expect(once()).rejects.toMatchObject({
    code: 'ONCE_NOT_RETAINED',
    message: expect.stringContaining('text/plain'),
  });
});

it('[E6] a doubt that was answered without an outcome has no value, and says so', async () => {
  const { engine } = setUp(memoryStore());
  const effect = { kind: 'external', onLapse: 'in_doubt' } as const;
  for (const [as, code] of [
    ['committed', 'ONCE_NOT_RETAINED'],
    ['rejected', 'ONCE_REJECTED'],
  ] as const) {
    const id = { scope: 'a', key: as };
    const once = () =>
      engine.once({ ...id, effect }, async () => {
        throw new OutcomeUnknown('nobody knows');
      });
    await expect(once()).rejects.toThrow('nobody knows');
    await engine.resolve(id, { as, keepMs: 60_000, by: 'ann', reason: 'looked' });
    await expect(once()).rejects.toMatchObject({ code, message: expect.stringMatching(/./) });
  }
});
