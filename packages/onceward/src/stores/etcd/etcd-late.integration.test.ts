import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { startEtcd } from '../../../../../scripts/services/index.ts';
import type { StoreError } from '../../engine/errors.ts';
import { startFaultProxy } from '../../testing/fault-proxy.ts';
import { openEtcdStore } from './index.ts';

const TIMEOUT_MS = 600;

function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

it('[E12] a write whose time was up before there was a connection is called undone, and not sent when one comes about', async () => {
  const cluster = await startEtcd(1);
  const proxies = [await startFaultProxy(cluster.nodes[0]!.port)];
  proxies.push(await startFaultProxy(cluster.nodes[0]!.port));
  const endpoints = proxies.map(({ port }) => `http://127.0.0.1:${port}`);
  const store = await openEtcdStore({ endpoints, timeoutMs: TIMEOUT_MS });
  const record = { bytes: Buffer.from('a record'), state: 'pending', dueAt: null } as const;
  try {
    for (let round = 0; round < 3; round += 1) {
      const id = { scope: 'late', key: `${round}` };
      await store.read(id).catch(() => {});
      for (const proxy of proxies) proxy.reset();
      await sleep(100);
      const told = store.swap(id, null, record).then(
        () => 'written',
        ({ applied }: StoreError) => applied,
      );
      // The process is frozen while it connects, for longer than the call may take.
      standStill(2 * TIMEOUT_MS);
      const applied = await told;
      await sleep(300);
      const found = await store.read(id).catch(() => store.read(id));
      expect([applied, found]).toEqual(['no', null]);
    }
  } finally {
    await store.close();
    for (const proxy of proxies) await proxy.close();
    await cluster.dispose();
  }
});
