import pg from 'pg';
import { expect, it } from 'vitest';
import { startPostgres } from '../../../../../scripts/services/index.ts';
import { openPostgresStore } from './index.ts';
import { explain } from './pg-session.ts';

/**
 * The server seems to have restarted before every statement, as behind a pooler that keeps connections open, and can be
 * told to refuse the message that proves what it has kept.
 */
const RESTARTING = `
  create schema restarting;
  create table restarting.refusal (state text not null);
  create function restarting.pg_postmaster_start_time() returns timestamptz language sql volatile
    as 'select clock_timestamp()';
  create function restarting.pg_logical_emit_message(boolean, text, text) returns pg_lsn language plpgsql as $$
    declare refused text;
    begin
      select state into refused from restarting.refusal;
      if refused is not null then raise exception 'refused on purpose' using errcode = refused; end if;
      return pg_catalog.pg_logical_emit_message($1, $2, $3);
    end $$;`;

it('[E12] a write that was made before its barrier was refused is unknown, not undone', async () => {
  const server = await startPostgres();
  const direct = new pg.Pool({ connectionString: server.url });
  await direct.query(RESTARTING);
  const pool = new pg.Pool({
    connectionString: server.url,
    options: '-c search_path=restarting,pg_catalog,public',
  });
  for (const one of [pool, direct]) one.on('error', () => {});
  const store = await openPostgresStore({ pool, timeoutMs: 2_000 });
  const record = { bytes: Buffer.from('a record'), state: 'pending', dueAt: null } as const;
  try {
    await store.swap({ scope: 'barrier', key: 'before' }, null, record);
    const id = { scope: 'barrier', key: 'after' };
    await direct.query(`insert into restarting.refusal values ('53100')`);
    await expect(store.swap(id, null, record)).rejects.toMatchObject({ applied: 'unknown' });
    await direct.query('delete from restarting.refusal');
    expect(await store.read(id)).not.toBeNull();
  } finally {
    await store.close();
    await pool.end();
    await direct.end();
    await server.dispose();
  }
});

it('[E12] a statement of which PostgreSQL does not know whether it was completed is not called undone', () => {
  const failure = (code: string) => explain(Object.assign(new Error('failed'), { code })).applied;
  expect(failure('40003')).toBe('unknown');
  expect(failure('40001')).toBe('no');
  expect(failure('57P01')).toBe('unknown');
});
