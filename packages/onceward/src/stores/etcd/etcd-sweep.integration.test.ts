import { afterAll, beforeAll, expect, it } from 'vitest';
import { type EtcdCluster, startEtcd } from '../../../../../scripts/services/index.ts';
import { createOnceward } from '../../onceward.ts';
import { openEtcdStore } from './index.ts';

let cluster: EtcdCluster;

beforeAll(async () => {
  cluster = await startEtcd(1);
});
afterAll(() => cluster.dispose());

it('[E11] a sweep forgets settled records of etcd when they are due, and not before', async () => {
  const store = await openEtcdStore({ endpoints: cluster.endpoints, prefix: 'sweep/' });
  const engine = createOnceward({ store, sweep: false });
  const effect = { kind: 'external', onLapse: 'in_doubt' } as const;
  const run = (key: string, keepCommittedMs: number) =>
    engine.once({ scope: 's', key, effect, policy: { keepCommittedMs } }, async () => 'done');
  try {
    for (let at = 0; at < 20; at += 1) await run(`short ${at}`, 1);
    for (let at = 0; at < 5; at += 1) await run(`long ${at}`, 60_000);
    let forgotten = 0;
    const sweepAgain = async () => (forgotten += (await engine.sweep()).forgotten);
    await expect.poll(sweepAgain, { timeout: 10_000 }).toBe(20);
    expect(await engine.count()).toMatchObject({ committed: 5 });
  } finally {
    await engine.close();
    await store.close();
  }
});
