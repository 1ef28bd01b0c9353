import { createClient } from '@redis/client';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../../../../scripts/services/index.ts';
import { profiles } from '../../engine/profiles.ts';
import { createOnceward } from '../../onceward.ts';
import { startFaultProxy } from '../../testing/fault-proxy.ts';
import { openRedisStore, type RedisStore } from './index.ts';

let server: RedisServer;
let tests = 0;
const opened: { close(): Promise<unknown> }[] = [];

beforeAll(async () => {
  server = await startRedis({ appendfsync: 'always' });
});
afterAll(() => server.dispose());
afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.close();
});

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const claimOf = (text: string) =>
  ({ bytes: Buffer.from(text), state: 'pending', dueAt: Date.now() + 60_000 }) as const;

const atUrl = (port: number) => ({ url: `redis://127.0.0.1:${port}` });
const ways = {
  'at a URL': atUrl,
  'through @redis/client': (port: number) => ({ client: createClient(atUrl(port)) }),
  'through ioredis': (port: number) => ({
    client: new Redis(port, '127.0.0.1', { lazyConnect: true }),
  }),
};

describe.each(Object.entries(ways))('claims together, %s', (_name, sourceOf) => {
  const openers = () => {
    tests += 1;
    const prefix = `together-${tests}:`;
    const open = async (port = server.port, timeoutMs = 1_000): Promise<RedisStore> => {
      const store = await openRedisStore({ ...sourceOf(port), prefix, timeoutMs });
      opened.push(store);
      return store;
    };
    const openSlowly = async (timeoutMs?: number) => {
      const proxy = await startFaultProxy(server.port);
      opened.push(proxy);
      return { proxy, store: await open(proxy.port, timeoutMs) };
    };
    return { open, openSlowly };
  };

  it('[E1] stores that race for keys in batches have one winner for each, whom all losers see', async () => {
    const { open } = openers();
    const stores = [await open(), await open(), await open()];
    for (let round = 0; round < 60; round += 1) {
      const ids = Array.from({ length: 12 }, (_, at) => ({ scope: 'race', key: `${round}.${at}` }));
      const results = await Promise.all(
        stores.flatMap((store, turn) =>
          // Each begins with another key, and leaves one out.
          ids.slice(1).map(async (_, at) => {
            const id = ids[(at + turn * 4) % ids.length]!;
            return { id, result: await store.swap(id, null, claimOf(`${turn}`)) };
          }),
        ),
      );
      for (const id of ids) {
        const current = await stores[0]!.read(id);
        const mine = results.filter((one) => one.id === id).map(({ result }) => result);
        expect(mine.filter(({ won }) => won)).toEqual([{ won: true, revision: current!.revision }]);
        for (const one of mine) if (!one.won) expect(one.current).toEqual(current);
      }
    }
  });

  it('[E12] where replies are slow, those beside a taken key are answered as before', async () => {
    const { open, openSlowly } = openers();
    const { proxy, store } = await openSlowly(800);
    await (await open()).swap({ scope: 'slow', key: 'taken' }, null, claimOf('first'));
    await store.swap({ scope: 'slow', key: 'warm' }, null, claimOf('first'));
    proxy.set({ toClient: { kind: 'delay', ms: 480 } });
    const keys = ['a', 'taken', 'b'];
    const claimAll = (round: number) =>
      Promise.allSettled(
        keys.map((key) => {
          const name = key === 'taken' ? key : `${key} ${round}`;
          return store.swap({ scope: 'slow', key: name }, null, claimOf('second'));
        }),
      );
    // The first time it is not known that they are slow.
    for (const one of await claimAll(0)) {
      expect(one).toMatchObject({ status: 'rejected', reason: { applied: 'unknown' } });
    }
    expect(await store.read({ scope: 'slow', key: 'a 0' })).toBeNull();
    for (let round = 1; round < 4; round += 1) {
      const won = (await claimAll(round)).map((one) => one.status === 'fulfilled' && one.value.won);
      expect(won).toEqual([true, false, true]);
    }
  });

  it('[E12] a claim that is made after its caller was refused is taken back', async () => {
    const { open, openSlowly } = openers();
    const { proxy, store } = await openSlowly();
    const direct = await open();
    const policy = { ...profiles.http, storeTimeoutMs: 200 };
    const effect = { kind: 'external', onLapse: 'in_doubt' } as const;
    const engine = createOnceward({ store, sweep: false });
    const ran: string[] = [];
    const run = (key: string) =>
      engine
        .once({ scope: 'late', key, effect, policy }, async () => ran.push(key))
        .catch((error: { code: string }) => error.code);
    await run('taken');
    await run('warm');
    await direct.swap({ scope: 'late', key: 'theirs' }, null, claimOf('another process'));
    proxy.set({ toClient: { kind: 'hold' } });
    const asked = Promise.all(['fresh', 'theirs', 'fresh too'].map(run));
    await sleep(350);
    proxy.set({});
    expect(await asked).toEqual(Array(3).fill('ONCE_STORE_UNAVAILABLE'));
    await sleep(1_500);
    for (const key of ['fresh', 'fresh too']) {
      expect(await direct.read({ scope: 'late', key })).toBeNull();
    }
    expect(ran).toEqual(['taken', 'warm']);
    await engine.close();
  });
});
