import { createRequire } from 'node:module';
import { createClient } from '@redis/client';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { canLocate, type RedisServer, startRedis } from '../../../../../scripts/services/index.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import { storeSuite } from '../../testing/stores/store-suite.ts';
import { openRedisStore, type RedisAtUrl, type RedisOfClient } from './index.ts';

let server: RedisServer;
let cluster: RedisServer;
let valkey: RedisServer | null = null;

const hasValkey = canLocate('valkey-server');

beforeAll(async () => {
  server = await startRedis({ appendfsync: 'always' });
  cluster = await startRedis({ appendfsync: 'always', cluster: true });
  if (hasValkey) {
    valkey = await startRedis({ appendfsync: 'always', program: 'valkey-server' });
  }
}, 120_000);
afterAll(async () => {
  await server.dispose();
  await cluster.dispose();
  await valkey?.dispose();
});

let stores = 0;

/** Each store has a prefix of its own, so that it holds nothing. */
function suiteOn(
  name: string,
  at: () => RedisServer,
  source: (port: number) => RedisAtUrl | RedisOfClient,
) {
  storeSuite({
    name,
    timeoutMs: 60_000,
    async open() {
      const prefix = `suite-${stores++}:`;
      const openStore = () => openRedisStore({ ...source(at().port), prefix, timeoutMs: 15_000 });
      let store: RecordStore = await openStore();
      return {
        store,
        async reopen() {
          await store.close();
          store = await openStore();
          return store;
        },
        async kill() {
          await at().kill();
          await at().start();
          await store.close();
          store = await openStore();
          return store;
        },
        close: () => store.close(),
      };
    },
  });
}

const atUrl = (port: number) => ({ url: `redis://127.0.0.1:${port}` });
const nodeRedis = (port: number) => ({ client: createClient(atUrl(port)) });
const ioRedis = (port: number) => ({
  client: new Redis(port, '127.0.0.1', { lazyConnect: true }),
});
const Redis4 = createRequire(import.meta.url)('ioredis4') as typeof Redis;
const ioRedis4 = (port: number) => ({
  client: new Redis4(port, '127.0.0.1', { lazyConnect: true }),
});

suiteOn('redis at a URL', () => server, atUrl);
suiteOn('redis through @redis/client', () => server, nodeRedis);
suiteOn('redis through ioredis', () => server, ioRedis);
suiteOn('redis through ioredis 4', () => server, ioRedis4);
suiteOn('redis in cluster mode, at a URL', () => cluster, atUrl);
suiteOn('redis in cluster mode', () => cluster, nodeRedis);

if (hasValkey) {
  suiteOn('valkey at a URL', () => valkey as RedisServer, atUrl);
  suiteOn('valkey through @redis/client', () => valkey as RedisServer, nodeRedis);
  suiteOn('valkey through ioredis', () => valkey as RedisServer, ioRedis);
} else {
  describe('store laws: valkey', () => {
    // Debian 12 has it in its backports only.
    it.skip('skipped: valkey-server is neither here nor in the package sources of this machine');
  });
}
