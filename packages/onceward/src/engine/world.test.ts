import { expect, it } from 'vitest';
import { nodePlatform } from '../runtime/node-platform.ts';
import { nodeWorld } from '../runtime/node-world.ts';
import { memoryStore } from '../stores/memory/index.ts';
import { manualWorld } from '../testing/manual-world.ts';
import { Engine } from './engine.ts';
import type { NextRecord, RecordStore } from './record-store.ts';
import type { World } from './world.ts';

it('[E11] the real world tells whole milliseconds on both clocks', () => {
  const world = nodeWorld();
  for (let look = 0; look < 1_000; look += 1) {
    expect(Number.isInteger(world.now())).toBe(true);
    expect(Number.isInteger(world.elapsed())).toBe(true);
  }
});

/** A clock as `performance.now()` is one: never a whole number. */
function fractionalWorld(): World & { jump(ms: number): void } {
  const world = manualWorld();
  let wall = 0;
  return {
    ...world,
    now: () => world.now() + wall + 0.25,
    elapsed: () => 1_000.75,
    jump(ms) {
      wall += ms;
    },
  };
}

/** The store, and every time that was given to it. */
function watchTimes(store: RecordStore): { store: RecordStore; times: number[] } {
  const times: number[] = [];
  const note = (time: number | null | undefined) => {
    if (typeof time === 'number' && Number.isFinite(time)) times.push(time);
  };
  const watched: RecordStore = {
    traits: store.traits,
    read: (id) => store.read(id),
    swap(id, expected, next: NextRecord | null) {
      note(next?.dueAt);
      return store.swap(id, expected, next);
    },
    scan(query) {
      note(query.dueBefore);
      return store.scan(query);
    },
    count: () => store.count(),
    forgetDue(now, limit) {
      note(now);
      return store.forgetDue!(now, limit);
    },
    close: () => store.close(),
  };
  return { store: watched, times };
}

it('[E11] a store sees whole milliseconds only, whatever the clocks tell and however they step', async () => {
  const world = fractionalWorld();
  const { store, times } = watchTimes(memoryStore());
  const engine = new Engine({ store, world, platform: nodePlatform(), sweep: false });
  const effect = { kind: 'external', onLapse: 'in_doubt' } as const;
  for (const step of [0, 86_400_000.5, -172_800_000.5]) {
    world.jump(step);
    await engine.once({ scope: 'orders', key: `after ${step}`, effect }, async () => step);
    await engine.sweep();
    const found = await engine.read({ scope: 'orders', key: `after ${step}` });
    const record = found?.record;
    if (record?.state !== 'committed') throw new Error('it should have been kept');
    times.push(record.createdAt, record.settledAt, record.keepUntil);
  }
  await engine.close();
  expect(times.length).toBeGreaterThan(12);
  expect(times.filter((time) => !Number.isInteger(time))).toEqual([]);
});

it('[E11] a duration that is not a whole number of milliseconds is refused by its name', async () => {
  const engine = new Engine({
    store: memoryStore(),
    world: nodeWorld(),
    platform: nodePlatform(),
    sweep: false,
  });
  const options = {
    scope: 'orders',
    key: 'k',
    effect: { kind: 'downstream' },
    policy: { keepCommittedMs: 1_000.5 },
  } as const;
  await expect(engine.once(options, async () => 1)).rejects.toThrow(
    /keepCommittedMs is 1000.5; it must be a whole number of milliseconds/,
  );
  await engine.close();
});
