import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type PostgresServer, startPostgres } from '../../../../scripts/services/index.ts';
import { createOnceward, type Engine, profiles, type Transact } from '../../src/index.ts';
import {
  openPostgresStore,
  type PgClient,
  type PostgresStore,
} from '../../src/stores/postgres/index.ts';
import {
  openSqliteStore,
  type SqliteDatabase,
  transactionsOn,
} from '../../src/stores/sqlite/index.ts';
import { openWithDriver } from '../../src/stores/sqlite/sqlite.fixture.ts';

const COMMITTED = {
  as: 'committed',
  outcome: { contentType: 'text/plain', bytes: Buffer.from('done') },
} as const;

function execute<Tx>(
  engine: Engine,
  key: string,
  transact: Transact<Tx>,
  work: (tx: Tx) => Promise<void>,
) {
  const operation = {
    id: { scope: 'orders', key },
    fingerprint: 'an order',
    effect: { kind: 'transaction' },
    policy: profiles.http,
  } as const;
  return engine.executeWithin(operation, transact, async (_attempt, tx) => {
    await work(tx);
    return COMMITTED;
  });
}

describe('within a transaction of PostgreSQL', () => {
  let server: PostgresServer;
  let pool: pg.Pool;
  let store: PostgresStore;
  let engine: Engine;

  beforeAll(async () => {
    server = await startPostgres();
    pool = new pg.Pool({ connectionString: server.url });
    pool.on('error', () => {});
    store = await openPostgresStore({ pool, timeoutMs: 10_000 });
    engine = createOnceward({ store, sweep: false });
    await pool.query('create table orders (name text not null)');
  }, 60_000);
  afterAll(async () => {
    await engine.close();
    await store.close();
    await pool.end();
    await server.dispose();
  });

  const count = async (name: string) =>
    (await pool.query('select 1 from orders where name = $1', [name])).rows.length;
  const insert = (client: PgClient, name: string) =>
    client.query('insert into orders values ($1)', [name]);

  it("[E7] a mapper's own transaction is refused, and what the handler did before is rolled back", async () => {
    const failing = execute(engine, 'mapper', store.transact, async (client) => {
      await insert(client, 'mapper');
      const db = drizzle({ client: client as unknown as pg.PoolClient });
      await db.transaction(async (tx) => {
        await tx.execute(sql`insert into orders values ('mapper')`);
      });
      throw new Error('the handler failed after the inner transaction');
    });
    await expect(failing).rejects.toThrow(/BEGIN/i);
    expect(await count('mapper')).toBe(0);
    expect(await engine.read({ scope: 'orders', key: 'mapper' })).toBeNull();
  });

  it('[E7] without an inner transaction the mapper works, with savepoints too', async () => {
    const done = await execute(engine, 'plain', store.transact, async (client) => {
      const db = drizzle({ client: client as unknown as pg.PoolClient });
      await db.execute(sql`insert into orders values ('plain')`);
      await client.query('savepoint before');
      await insert(client, 'plain');
      await client.query('rollback to savepoint before');
    });
    expect(done).toMatchObject({ kind: 'executed', recorded: true });
    expect(await count('plain')).toBe(1);
  });

  it.each([
    ['a text', (client: PgClient) => client.query('commit')],
    ['several statements', (client: PgClient) => client.query("select ';'; commit")],
    [
      'a description',
      (client: PgClient) => client.query({ text: '/* end */ COMMIT' } as unknown as string),
    ],
    [
      'a callback',
      (client: PgClient) =>
        new Promise((resolve, reject) => {
          const query = client.query as unknown as (
            text: string,
            done: (error: Error | null) => void,
          ) => void;
          query('commit', (error) => (error ? reject(error) : resolve(null)));
        }),
    ],
  ])('[E7] a COMMIT of the handler, given as %s, is refused', async (how, commit) => {
    const failing = execute(engine, how, store.transact, async (client) => {
      await insert(client, how);
      await commit(client);
    });
    await expect(failing).rejects.toMatchObject({ code: 'ONCE_INVALID_INPUT', applied: 'no' });
    expect(await count(how)).toBe(0);
  });

  /** A transaction of the caller's own, whose connection nobody guards. */
  const bare: Transact<PgClient> = async (work) => {
    const client = await pool.connect();
    try {
      await client.query('begin');
      const result = await work(client);
      await client.query('commit');
      return result;
    } catch (error) {
      await client.query('rollback');
      throw error;
    } finally {
      client.release();
    }
  };

  it.each([
    ['succeeds', false, false],
    ['succeeds in another transaction', false, true],
    ['fails', true, false],
    ['fails in another transaction', true, true],
  ])(
    '[E7] an effect that %s after somebody committed the transaction is in doubt, and is not repeated',
    async (name, fails, begins) => {
      const run = () =>
        execute(engine, name, bare, async (client) => {
          await insert(client, name);
          await client.query('commit');
          if (begins) await client.query('begin');
          if (fails) throw new Error('after the commit');
        });
      expect(await run()).toMatchObject({ kind: 'refused', reason: 'in_doubt' });
      expect(await run()).toMatchObject({ kind: 'refused', reason: 'in_doubt' });
      expect(await count(name)).toBe(1);
      const view = await engine.read({ scope: 'orders', key: name });
      expect(view?.state).toBe('in_doubt');
    },
  );
});

it('[E7] within a transaction of SQLite a COMMIT of the handler is refused, and nothing is left', async () => {
  const database = openWithDriver(':memory:');
  database.exec('create table orders (name text not null)');
  const store = await openSqliteStore({ database });
  const engine = createOnceward({ store, sweep: false });
  const transact = transactionsOn(database);
  for (const end of [
    (tx: SqliteDatabase) => tx.exec('commit'),
    (tx: SqliteDatabase) => tx.prepare('COMMIT').run(),
    (tx: SqliteDatabase) => tx.exec("insert into orders values ('more'); end"),
  ]) {
    const failing = execute(engine, 'k', transact, async (tx) => {
      tx.prepare('insert into orders values (?)').run('k');
      end(tx);
    });
    await expect(failing).rejects.toMatchObject({ code: 'ONCE_INVALID_INPUT', applied: 'no' });
    expect(database.prepare('select name from orders').all()).toEqual([]);
  }
  const done = await execute(engine, 'k', transact, async (tx) => {
    tx.exec("savepoint a; insert into orders values ('k'); release a");
  });
  expect(done.kind).toBe('executed');
  expect(database.prepare('select name from orders').all()).toHaveLength(1);
  await engine.close();
  await store.close();
  database.close();
});
