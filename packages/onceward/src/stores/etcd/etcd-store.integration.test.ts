import { afterAll, beforeAll } from 'vitest';
import { type EtcdCluster, startEtcd } from '../../../../../scripts/services/index.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import { storeSuite } from '../../testing/stores/store-suite.ts';
import { openEtcdStore } from './index.ts';

const clusters = new Map<1 | 3, EtcdCluster>();

beforeAll(async () => {
  for (const size of [1, 3] as const) clusters.set(size, await startEtcd(size));
});
afterAll(async () => {
  for (const cluster of clusters.values()) await cluster.dispose();
});

let stores = 0;

for (const size of [1, 3] as const) {
  storeSuite({
    name: `etcd with ${size} member${size === 1 ? '' : 's'}`,
    histories: 15,
    timeoutMs: 60_000,
    async open() {
      const cluster = clusters.get(size) as EtcdCluster;
      const prefix = `suite-${stores++}/`;
      const { endpoints } = cluster;
      const openStore = () => openEtcdStore({ endpoints, prefix, timeoutMs: 15_000 });
      let store: RecordStore = await openStore();
      return {
        store,
        async reopen() {
          await store.close();
          store = await openStore();
          return store;
        },
        async kill() {
          await Promise.all(cluster.nodes.map((node) => node.kill()));
          await Promise.all(cluster.nodes.map((node) => node.start()));
          await store.close();
          store = await openStore();
          return store;
        },
        close: () => store.close(),
      };
    },
  });
}
