import { createClient, createCluster } from '@redis/client';
import { Cluster } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RedisCluster, startRedisCluster } from '../../../../../scripts/services/index.ts';
import type { OperationId } from '../../engine/record.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import { storeSuite } from '../../testing/stores/store-suite.ts';
import { openRedisStore, type RedisAtUrl, type RedisOfClient } from './index.ts';
import { keyOf } from './stored-value.ts';
import { slotOf } from './wire/hash-slot.ts';

let cluster: RedisCluster;

beforeAll(async () => {
  cluster = await startRedisCluster({ appendfsync: 'always' });
}, 90_000);
afterAll(() => cluster.dispose());

interface Given {
  readonly source: RedisAtUrl | RedisOfClient;
  close(): void;
}

const WAYS: Readonly<Record<string, () => Given>> = {
  'the URL of a node'() {
    const [, second] = cluster.nodes;
    return { source: { url: second?.url as string }, close: () => {} };
  },
  '@redis/client'() {
    const rootNodes = cluster.nodes.map(({ url }) => ({ url }));
    const client = createCluster({ rootNodes });
    client.on('error', () => {});
    return { source: { client }, close: () => {} };
  },
  ioredis() {
    const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
    const client = new Cluster(nodes, { lazyConnect: true });
    client.on('error', () => {});
    return { source: { client }, close: () => client.disconnect() };
  },
};

let stores = 0;

async function open(way: () => Given, prefix: string, timeoutMs = 15_000) {
  const { source, close } = way();
  try {
    return await openRedisStore({ ...source, prefix, timeoutMs });
  } finally {
    close();
  }
}

for (const [name, way] of Object.entries(WAYS)) {
  storeSuite({
    name: `a Redis cluster of three nodes through ${name}`,
    timeoutMs: 60_000,
    async open() {
      const prefix = `suite-${stores++}:`;
      let store: RecordStore = await open(way, prefix);
      const reopen = async () => {
        await store.close();
        store = await open(way, prefix);
        return store;
      };
      return {
        store,
        reopen,
        async kill() {
          await Promise.all(cluster.nodes.map((node) => node.kill()));
          await Promise.all(cluster.nodes.map((node) => node.start()));
          await Promise.all(cluster.nodes.map(({ url }) => untilWhole(url)));
          return reopen();
        },
        close: () => store.close(),
      };
    },
  });
}

async function on<T>(url: string, work: (send: (line: string) => Promise<unknown>) => Promise<T>) {
  const client = createClient({ url });
  await client.connect();
  try {
    return await work((line) => client.sendCommand(line.split(' ')));
  } finally {
    client.destroy();
  }
}

function untilWhole(url: string): Promise<void> {
  return on(url, async (send) => {
    const info = async () => String(await send('CLUSTER INFO'));
    await expect.poll(info, { timeout: 30_000 }).toContain('cluster_state:ok');
  });
}

/** The node that holds a third of the slots, in the order in which they were given out. */
function nodeOf(slot: number): number {
  return slot <= 5_460 ? 0 : slot <= 10_922 ? 1 : 2;
}

function record(text: string) {
  return { bytes: Buffer.from(text), state: 'pending', dueAt: null } as const;
}

function idOn(node: number, prefix: string): OperationId {
  for (let at = 0; ; at += 1) {
    const id = { scope: 'cluster', key: `key ${at}` };
    if (nodeOf(slotOf(keyOf(prefix, id))) === node) return id;
  }
}

describe.each(Object.keys(WAYS))('a cluster through %s', (name) => {
  const way = WAYS[name] as () => Given;

  it('[E5] a slot that moves is followed, while it moves and afterwards', async () => {
    const prefix = `moves-${name}:`;
    const store = await open(way, prefix);
    const id = idOn(0, prefix);
    const key = keyOf(prefix, id);
    const slot = slotOf(key);
    const [from, to] = [cluster.nodes[0], cluster.nodes[1]].map((node) => node?.url as string) as [
      string,
      string,
    ];
    const [source, target] = (await Promise.all(
      [from, to].map((url) => on(url, (send) => send('CLUSTER MYID'))),
    )) as [string, string];
    await on(to, (send) => send(`CLUSTER SETSLOT ${slot} IMPORTING ${source}`));
    await on(from, (send) => send(`CLUSTER SETSLOT ${slot} MIGRATING ${target}`));
    // The key is not at the source any more, which points to the target: ASK.
    const claim = await store.swap(id, null, record('claim'));
    expect(await on(to, (send) => send(`CLUSTER COUNTKEYSINSLOT ${slot}`))).toBe(1);
    for (const { url } of [...cluster.nodes].reverse()) {
      await on(url, (send) => send(`CLUSTER SETSLOT ${slot} NODE ${target}`));
    }
    // Now it is MOVED for good.
    const revision = claim.won ? claim.revision : 0;
    const settled = await store.swap(id, revision, { ...record('settled'), state: 'committed' });
    expect(settled.won).toBe(true);
    expect(String(Buffer.from((await store.read(id))?.bytes ?? []))).toBe('settled');
    await store.close();
    await giveBack(slot, target, source);
  });

  it('[E12] a node that is down takes its own keys with it, and no others', async () => {
    const prefix = `gone-${name}:`;
    const store = await open(way, prefix, 1_000);
    const [here, gone] = [idOn(0, prefix), idOn(2, prefix)];
    const victim = cluster.nodes[2];
    for (const id of [here, gone]) await store.swap(id, null, record('claim'));
    victim?.pause();
    const began = performance.now();
    await expect(store.read(gone)).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(await store.read(here)).not.toBeNull();
    victim?.resume();
    await expect.poll(() => store.read(gone).catch(() => null), { timeout: 20_000 }).not.toBeNull();
    await store.close();
  });
});

describe('a cluster whose node fails for good', () => {
  it('[E12] goes on where the replica takes its place, and says that a failover can lose claims', async () => {
    const replica = await cluster.addReplica();
    const prefix = 'failover:';
    const store = await open(WAYS['the URL of a node'] as () => Given, prefix, 1_000);
    const replicas = store.findings.find(({ setting }) => setting === 'connected_slaves');
    expect(replicas).toMatchObject({ limits: true });
    const id = idOn(0, prefix);
    const claim = await store.swap(id, null, record('claim'));
    // Copies are made after the answer: wait until this one is.
    const copied = () => on(replica.url, (send) => send('DBSIZE'));
    const size = await on(cluster.nodes[0]?.url as string, (send) => send('DBSIZE'));
    await expect.poll(copied, { timeout: 10_000 }).toBe(size);
    await cluster.nodes[0]?.kill();
    const settle = async () => {
      const next = { ...record('settled'), state: 'committed' } as const;
      await store.swap(id, claim.won ? claim.revision : 0, next).catch(() => {});
      const found = await store.read(id).catch(() => null);
      return String(Buffer.from(found?.bytes ?? []));
    };
    await expect.poll(settle, { timeout: 40_000, interval: 200 }).toBe('settled');
    await store.close();
  }, 90_000);
});

/** What the test moved goes back where it was, so that the next finds the slots in thirds. */
async function giveBack(slot: number, holder: string, owner: string): Promise<void> {
  for (const { url } of cluster.nodes) {
    const client = createClient({ url });
    await client.connect();
    const keys = await client.sendCommand(['CLUSTER', 'GETKEYSINSLOT', String(slot), '100']);
    // Nodes that do not hold the slot have none of its keys.
    for (const key of keys as unknown as string[]) await client.del(key);
    client.destroy();
  }
  // An owner that has imported it outbids what the others still hear of the owner before.
  const [first] = cluster.nodes;
  await on(first?.url as string, (send) => send(`CLUSTER SETSLOT ${slot} IMPORTING ${holder}`));
  for (const { url } of cluster.nodes) {
    await on(url, (send) => send(`CLUSTER SETSLOT ${slot} NODE ${owner}`));
  }
}
