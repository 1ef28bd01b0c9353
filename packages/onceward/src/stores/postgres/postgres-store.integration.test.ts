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

let databases = 0;

async function createDatabase(): Promise<string> {
  const name = `suite_${databases++}`;
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  await client.query(`create database ${name}`);
  await client.end();
  return server.url.replace(/postgres$/, name);
}

storeSuite({
  name: 'postgres',
  async open() {
    const connectionString = await createDatabase();
    let pool = new pg.Pool({ connectionString });
    const openStore = () => {
      pool = new pg.Pool({ connectionString });
      // Idle connections break when the server is killed.
      pool.on('error', () => {});
      return openPostgresStore({ pool });
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
