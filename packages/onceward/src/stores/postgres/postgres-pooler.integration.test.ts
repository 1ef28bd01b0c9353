import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  type PgBouncer,
  type PostgresServer,
  startPgBouncer,
  startPostgres,
} from '../../../../../scripts/services/index.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import { storeSuite } from '../../testing/stores/store-suite.ts';
import { openPostgresStore } from './index.ts';

let server: PostgresServer;
let bouncer: PgBouncer;

beforeAll(async () => {
  server = await startPostgres();
  bouncer = await startPgBouncer(server);
});
afterAll(async () => {
  await bouncer.dispose();
  await server.dispose();
});

storeSuite({
  name: 'postgres behind a pooler in transaction mode',
  histories: 15,
  timeoutMs: 60_000,
  skip: { 'survives-kill': 'the server behind the pooler is killed in the suite without one' },
  async open() {
    const admin = new pg.Client({ connectionString: server.url });
    await admin.connect();
    await admin.query('drop schema if exists onceward cascade');
    await admin.end();
    let pool: pg.Pool;
    const openStore = () => {
      pool = new pg.Pool({ connectionString: bouncer.url });
      pool.on('error', () => {});
      return openPostgresStore({ pool, notifications: false, connections: 2, timeoutMs: 15_000 });
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
      close,
    };
  },
});

it('[E1] writes through a pooler that is not configured', async () => {
  const pool = new pg.Pool({ connectionString: bouncer.url });
  const store = await openPostgresStore({ pool });
  const swapAll = async (round: number) => {
    const next = { bytes: new Uint8Array([round]), state: 'pending', dueAt: null } as const;
    const swaps = Array.from({ length: 300 }, (_, i) =>
      store.swap({ scope: `round ${round}`, key: `k${i}` }, null, next),
    );
    return (await Promise.all(swaps)).filter(({ won }) => won).length;
  };
  try {
    for (let round = 0; round < 10; round += 1) expect(await swapAll(round)).toBe(300);
  } finally {
    await store.close();
    await pool.end();
  }
});
