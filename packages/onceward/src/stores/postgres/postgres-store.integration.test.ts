import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';
import { type PostgresServer, startPostgres } from '../../../../../scripts/services/index.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import { storeSuite } from '../../testing/store-suite.ts';
import { openPostgresStore } from './index.ts';

let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.dispose());

/** The schema is removed rather than the database: making a database costs more than all laws together. */
async function removeSchema(): Promise<void> {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  await client.query('drop schema if exists onceward cascade');
  await client.end();
}

storeSuite({
  name: 'postgres',
  timeoutMs: 60_000,
  async open() {
    await removeSchema();
    let pool: pg.Pool;
    const openStore = () => {
      pool = new pg.Pool({ connectionString: server.url });
      // Idle connections break when the server is killed.
      pool.on('error', () => {});
      return openPostgresStore({ pool, timeoutMs: 15_000 });
    };
    let store: RecordStore = await openStore();
    const close = async () => {
      await store.close();
      if (!pool.ended) await pool.end();
    };
    return {
      store,
      async reopen() {
        await close();
        store = await openStore();
        return store;
      },
      async kill() {
        await server.kill();
        await server.start();
        await close();
        store = await openStore();
        return store;
      },
      close,
    };
  },
});
