import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type EtcdCluster,
  type EtcdServer,
  startEtcd,
} from '../../../../../scripts/services/index.ts';
import type { OperationId } from '../../engine/record.ts';
import { createOnceward, profiles } from '../../index.ts';
import { type EtcdStore, openEtcdStore } from './index.ts';

const TIMEOUT_MS = 2_000;

let cluster: EtcdCluster;
let operations = 0;

beforeAll(async () => {
  cluster = await startEtcd(3);
});
afterAll(() => cluster.dispose());

const newId = (): OperationId => ({ scope: 'cluster', key: `operation ${operations++}` });
const record = { bytes: Buffer.from('record'), state: 'pending', dueAt: null } as const;

async function withStore(
  endpoints: readonly string[],
  work: (store: EtcdStore) => Promise<void>,
): Promise<void> {
  const store = await untilAnswered(() => openEtcdStore({ endpoints, timeoutMs: TIMEOUT_MS }));
  try {
    await work(store);
  } finally {
    await store.close();
  }
}

async function untilAnswered<T>(ask: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + 40_000;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (performance.now() > giveUpAt) throw error;
      await sleep(100);
    }
  }
}

function node(at: number): EtcdServer {
  const found = cluster.nodes[at];
  if (found === undefined) throw new Error(`there is no node ${at}`);
  return found;
}

describe('an etcd cluster of three', () => {
  it('calls itself replicated, and one member does not', async () => {
    await withStore(cluster.endpoints, async (store) => {
      expect(store.traits.durability).toBe('replicated');
    });
    const alone = await startEtcd(1);
    const refusal = openEtcdStore({ endpoints: alone.endpoints, durability: 'replicated' });
    await expect(refusal).rejects.toMatchObject({ code: 'ONCE_INVALID_CONFIG' });
    await withStore(alone.endpoints, async (store) => {
      expect(store.traits.durability).toBe('machine');
    });
    await alone.dispose();
  });

  it('[E12] goes on with any one member killed, and keeps what was acknowledged', async () => {
    await withStore(cluster.endpoints, async (store) => {
      for (let at = 0; at < 3; at += 1) {
        const before = newId();
        const claimed = await untilAnswered(() => store.swap(before, null, record));
        await node(at).kill();
        const during = newId();
        const result = await untilAnswered(() => store.swap(during, null, record));
        const kept = await untilAnswered(() => store.read(before));
        await node(at).start();
        expect(result.won || result.current !== null).toBe(true);
        expect(kept?.revision).toBe(claimed.won ? claimed.revision : claimed.current?.revision);
      }
    });
  });

  it('[E12] a process that starts while one member is silent knows the time, is ready and serves, soon', async () => {
    for (let at = 0; at < 3; at += 1) {
      // The leader may be the one that falls silent: then the others have to elect first.
      node(at).pause();
      try {
        const began = performance.now();
        const store = await untilAnswered(() =>
          openEtcdStore({ endpoints: cluster.endpoints, timeoutMs: TIMEOUT_MS }),
        );
        const engine = createOnceward({ store, sweep: false });
        await untilAnswered(() => engine.ping());
        const operation = {
          id: newId(),
          fingerprint: 'f',
          effect: { kind: 'external', onLapse: 'in_doubt' },
          policy: { ...profiles.http, storeTimeoutMs: TIMEOUT_MS },
        } as const;
        const outcome = { contentType: 'text/plain', bytes: Buffer.from('done') };
        const { kind } = await engine.execute(operation, async () => ({
          as: 'committed',
          outcome,
        }));
        expect(kind).toBe('executed');
        expect(performance.now() - began).toBeLessThan(12_000);
        expect(Math.abs(engine.now() - Date.now())).toBeLessThan(2_000);
        await engine.close();
        await store.close();
      } finally {
        node(at).resume();
      }
      await withStore([node(at).url], async (store) => {
        await untilAnswered(() => store.read(newId()));
      });
    }
  });

  it('[E12] a minority refuses, for reads too', async () => {
    await withStore([node(0).url], async (store) => {
      const id = newId();
      await untilAnswered(() => store.swap(id, null, record));
      await Promise.all([node(1).kill(), node(2).kill()]);
      try {
        const refusal = { code: 'ONCE_STORE_UNAVAILABLE' };
        await expect(store.swap(newId(), null, record)).rejects.toMatchObject(refusal);
        await expect(store.read(id)).rejects.toMatchObject(refusal);
      } finally {
        await Promise.all([node(1).start(), node(2).start()]);
      }
      expect(await untilAnswered(() => store.read(id))).not.toBeNull();
    });
  });

  it('a record over 64 KiB is refused with the limit and what to do', async () => {
    await withStore(cluster.endpoints, async (store) => {
      const large = { ...record, bytes: new Uint8Array(64 * 1_024 + 1) };
      const refusal = store.swap(newId(), null, large);
      await expect(refusal).rejects.toThrow('65537 bytes, and the etcd store accepts 65536');
    });
  });

  it('[E4] a watch wakes a waiter of another process, also for what happened before it began', async () => {
    await withStore(cluster.endpoints, async (one) => {
      await withStore(cluster.endpoints, async (other) => {
        const id = newId();
        const claimed = await one.swap(id, null, record);
        if (!claimed.won) throw new Error('the claim was lost');
        const limit = AbortSignal.timeout(20_000);
        const woken = other.changed(id, claimed.revision, limit);
        await sleep(200);
        await one.swap(id, claimed.revision, { ...record, state: 'committed' });
        await woken;
        await other.changed(id, claimed.revision, limit);
        expect(limit.aborted).toBe(false);
      });
    });
  });
});
