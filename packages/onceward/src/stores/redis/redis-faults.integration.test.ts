import { createClient } from '@redis/client';
import { Redis } from 'ioredis';
import { afterAll, beforeAll } from 'vitest';
import { type RedisServer, startRedis } from '../../../../../scripts/services/index.ts';
import { startFaultProxy } from '../../testing/fault-proxy.ts';
import { storeFaultSuite } from '../../testing/stores/store-fault-suite.ts';
import { openRedisStore, type RedisAtUrl, type RedisOfClient } from './index.ts';

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis({ appendfsync: 'always' });
});
afterAll(() => server.dispose());

const TIMEOUT_MS = 500;
let stores = 0;

function suiteThrough(name: string, source: (port: number) => RedisAtUrl | RedisOfClient): void {
  storeFaultSuite({
    name,
    timeoutMs: TIMEOUT_MS,
    async open() {
      const proxy = await startFaultProxy(server.port);
      const store = await openRedisStore({
        ...source(proxy.port),
        prefix: `faults-${stores++}:`,
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
}

suiteThrough('redis at a URL', (port) => ({ url: `redis://127.0.0.1:${port}` }));
suiteThrough('redis through @redis/client', (port) => ({
  client: createClient({ url: `redis://127.0.0.1:${port}` }),
}));
suiteThrough('redis through ioredis', (port) => ({
  client: new Redis(port, '127.0.0.1', { lazyConnect: true }),
}));
