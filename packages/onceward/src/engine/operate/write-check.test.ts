import { expect, it } from 'vitest';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { nodeWorld } from '../../runtime/node-world.ts';
import { memoryStore } from '../../stores/memory/index.ts';
import { Engine } from '../engine.ts';
import { StoreError } from '../errors.ts';
import type { RecordStore } from '../record-store.ts';

/** Answers reads, and takes writes only while there is room. */
function fillableStore() {
  const inner = memoryStore();
  const state = { hasRoom: true, writes: 0 };
  const store: RecordStore = {
    traits: inner.traits,
    read: (id) => inner.read(id),
    async swap(id, expected, next) {
      state.writes += 1;
      if (state.hasRoom) return inner.swap(id, expected, next);
      throw new StoreError('ONCE_STORE_UNAVAILABLE', 'no room', { applied: 'no' });
    },
    scan: (query) => inner.scan(query),
    count: () => inner.count(),
    close: () => inner.close(),
  };
  return { store, state };
}

it('[E12] a store that reads and does not write is down, and up again when it writes', async () => {
  const { store, state } = fillableStore();
  const engine = new Engine({ store, world: nodeWorld(), platform: nodePlatform(), sweep: false });
  const run = (key: string) =>
    engine.once({ scope: 'orders', key, effect: { kind: 'downstream' } }, async () => key);

  await run('before');
  const { writes } = state;
  await engine.ping();
  expect(state.writes).toBe(writes);

  state.hasRoom = false;
  await expect(run('full')).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
  await expect(engine.ping()).rejects.toThrow('no room');
  await expect(engine.ping()).rejects.toThrow('no room');

  state.hasRoom = true;
  await Promise.all([engine.ping(), engine.ping()]);
  expect(await store.count()).toMatchObject({ committed: 1, pending: 0 });
  expect(await run('full')).toBe('full');
  const healthy = state.writes;
  await engine.ping();
  expect(state.writes).toBe(healthy);
  await engine.close();
});
