import pg from 'pg';
import { expect, it } from 'vitest';
import { startPostgres } from '../../../../../scripts/services/index.ts';
import { createOnceward } from '../../index.ts';
import { openPostgresStore } from './index.ts';

/** Counting takes a second and a half for each record, as it does where there are very many. */
const SLOW_COUNT = `
  create schema slow;
  create function slow.step(bigint) returns bigint language plpgsql as $$
    begin perform pg_sleep(1.5); return $1 + 1; end $$;
  create aggregate slow.count(*) (sfunc = slow.step, stype = bigint, initcond = '0');`;

it('[E12] a process that starts while a count takes long knows the time of PostgreSQL, and is ready', async () => {
  const server = await startPostgres();
  const direct = new pg.Pool({ connectionString: server.url });
  await direct.query(SLOW_COUNT);
  const pool = new pg.Pool({
    connectionString: server.url,
    options: '-c search_path=slow,pg_catalog,public',
  });
  for (const one of [pool, direct]) one.on('error', () => {});
  const store = await openPostgresStore({ pool, timeoutMs: 10_000 });
  try {
    const record = { bytes: Buffer.from('a record'), state: 'pending', dueAt: null } as const;
    for (const key of ['a', 'b']) await store.swap({ scope: 's', key }, null, record);
    let isCounted = false;
    const counting = store.count().then((count) => {
      isCounted = true;
      return count;
    });
    const began = performance.now();
    const engine = createOnceward({ store, sweep: false });
    await engine.ping();
    expect(performance.now() - began).toBeLessThan(1_400);
    expect(Math.abs(engine.now() - Date.now())).toBeLessThan(1_000);
    expect(isCounted).toBe(false);
    expect((await counting).pending).toBe(2);
    await engine.close();
  } finally {
    await store.close();
    await pool.end();
    await direct.end();
    await server.dispose();
  }
});
