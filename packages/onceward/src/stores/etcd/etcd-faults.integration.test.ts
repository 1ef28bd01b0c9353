import { afterAll, beforeAll } from 'vitest';
import { type EtcdCluster, startEtcd } from '../../../../../scripts/services/index.ts';
import { startFaultProxy } from '../../testing/fault-proxy.ts';
import { storeFaultSuite } from '../../testing/stores/store-fault-suite.ts';
import { openEtcdStore } from './index.ts';

let cluster: EtcdCluster;

beforeAll(async () => {
  cluster = await startEtcd(1);
});
afterAll(() => cluster.dispose());

const TIMEOUT_MS = 700;
let stores = 0;

storeFaultSuite({
  name: 'etcd',
  timeoutMs: TIMEOUT_MS,
  async open() {
    const [server] = cluster.nodes;
    if (server === undefined) throw new Error('etcd has no node');
    const proxy = await startFaultProxy(server.port);
    const store = await openEtcdStore({
      endpoints: [`http://127.0.0.1:${proxy.port}`],
      prefix: `faults-${stores++}/`,
      timeoutMs: TIMEOUT_MS,
    });
    return {
      store,
      proxy,
      server,
      async close() {
        await store.close();
        await proxy.close();
      },
    };
  },
});
