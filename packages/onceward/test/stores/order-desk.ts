import pg from 'pg';
import type { Execution } from '../../src/engine/operation.ts';
import { createOnceward, type Engine, profiles, type Transact } from '../../src/index.ts';
import {
  openPostgresStore,
  type PgClient,
  type PgPool,
  type PgPoolClient,
  type PgStatement,
} from '../../src/stores/postgres/index.ts';
import {
  type SqliteDatabase,
  type SqliteStatement,
  transactionsOn,
} from '../../src/stores/sqlite/index.ts';
import { openPostgresAt, openSqliteAt, type StoreAddress } from './store-address.ts';

/** Called before and after every statement of the transaction: each is a place to die at. */
export type Point = () => void;

/** Places orders, each in one transaction with its record. */
export interface OrderDesk {
  placeOrder(key: string): Promise<Execution>;
  countOrders(key: string): Promise<number>;
  close(): Promise<void>;
}

export function openOrderDesk(address: StoreAddress, point: Point): Promise<OrderDesk> {
  return address.kind === 'postgres'
    ? openPostgresDesk(address, point)
    : openSqliteDesk(address, point);
}

const CREATE = 'create table if not exists orders (name text not null)';

function place<Tx>(
  engine: Engine,
  key: string,
  transact: Transact<Tx>,
  insert: (tx: Tx) => Promise<unknown>,
): Promise<Execution> {
  const operation = {
    id: { scope: 'orders', key },
    fingerprint: 'an order',
    effect: { kind: 'transaction' },
    policy: { ...profiles.http, storeTimeoutMs: 10_000 },
  } as const;
  return engine.executeWithin(operation, transact, async (_attempt, tx) => {
    await insert(tx);
    return {
      as: 'committed',
      outcome: { contentType: 'text/plain', bytes: Buffer.from(`order ${key}`) },
    };
  });
}

async function openPostgresDesk(address: StoreAddress, point: Point): Promise<OrderDesk> {
  const store = await openPostgresAt(address);
  const pool = new pg.Pool({ connectionString: address.at });
  pool.on('error', () => {});
  await pool.query(CREATE);
  const watched = await openPostgresStore({
    pool: watchPool(pool, point),
    notifications: false,
    timeoutMs: address.timeoutMs,
  });
  const engine = createOnceward({ store, sweep: false });
  return {
    placeOrder: (key) =>
      place<PgClient>(engine, key, watched.transact, (client) =>
        client.query('insert into orders values ($1)', [key]),
      ),
    async countOrders(key) {
      return (await pool.query('select 1 from orders where name = $1', [key])).rows.length;
    },
    async close() {
      await engine.close();
      await watched.close();
      await store.close();
      await pool.end();
    },
  };
}

function watchPool(pool: PgPool, point: Point): PgPool {
  return {
    async connect() {
      const client = await pool.connect();
      const query = async (statement: string | PgStatement, rest?: unknown) => {
        point();
        const text = typeof statement === 'string' ? statement : statement.text;
        const values = typeof statement === 'string' ? (rest as unknown[]) : statement.values;
        const result = await client.query(text, values);
        point();
        return result;
      };
      return {
        query,
        release: (destroy) => client.release(destroy),
        on: (event, listener) => client.on(event, listener),
        removeListener: (event, listener) => client.removeListener(event, listener),
      } satisfies PgPoolClient;
    },
  };
}

async function openSqliteDesk(address: StoreAddress, point: Point): Promise<OrderDesk> {
  const { store, database } = await openSqliteAt(address);
  database.exec(CREATE);
  const watched = watchDatabase(database, point);
  const engine = createOnceward({ store, sweep: false });
  const transact = transactionsOn(watched);
  return {
    placeOrder: (key) =>
      place(engine, key, transact, async (tx) => {
        tx.prepare('insert into orders values (?)').run(key);
      }),
    async countOrders(key) {
      return database.prepare('select 1 from orders where name = ?').all(key).length;
    },
    async close() {
      await engine.close();
      await store.close();
      database.close();
    },
  };
}

function watchDatabase(database: SqliteDatabase, point: Point): SqliteDatabase {
  const watch = <T>(call: () => T): T => {
    point();
    const result = call();
    point();
    return result;
  };
  return {
    exec: (sql) => watch(() => database.exec(sql)),
    prepare(sql) {
      const statement = database.prepare(sql);
      return {
        run: (...values) => watch(() => statement.run(...values)),
        get: (...values) => watch(() => statement.get(...values)),
        all: (...values) => watch(() => statement.all(...values)),
      } satisfies SqliteStatement;
    },
    close: () => database.close(),
  };
}
