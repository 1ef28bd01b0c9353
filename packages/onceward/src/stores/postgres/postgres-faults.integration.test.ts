import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';
import { type PostgresServer, startPostgres } from '../../../../../scripts/services/index.ts';
import { startFaultProxy } from '../../testing/fault-proxy.ts';
import { storeFaultSuite } from '../../testing/stores/store-fault-suite.ts';
import { openPostgresStore } from './index.ts';

let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.dispose());

const TIMEOUT_MS = 700;

storeFaultSuite({
  name: 'postgres',
  timeoutMs: TIMEOUT_MS,
  async open() {
    const proxy = await startFaultProxy(server.port);
    const pool = new pg.Pool({
      host: '127.0.0.1',
      port: proxy.port,
      user: 'postgres',
      database: 'postgres',
    });
    pool.on('error', () => {});
    const store = await openPostgresStore({ pool, timeoutMs: TIMEOUT_MS });
    return {
      store,
      proxy,
      server,
      async close() {
        await store.close();
        await pool.end();
        await proxy.close();
      },
    };
  },
});
