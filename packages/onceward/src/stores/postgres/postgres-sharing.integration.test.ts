import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type PostgresServer, startPostgres } from '../../../../../scripts/services/index.ts';
import type { NextRecord } from '../../engine/record-store.ts';
import { openPostgresStore, type PgPool, type PgPoolClient, type PostgresStore } from './index.ts';

let server: PostgresServer;
let pool: pg.Pool;
let databases = 0;

beforeAll(async () => {
  server = await startPostgres();
  pool = poolOf(server.url);
});
afterAll(async () => {
  await pool.end();
  await server.dispose();
});

/** A connection may get the server's shutdown after its pool has ended. */
function poolOf(connectionString: string): pg.Pool {
  const own = new pg.Pool({ connectionString });
  own.on('error', () => {});
  return own;
}

async function newDatabase(): Promise<pg.Pool> {
  const name = `sharing_${databases++}`;
  await pool.query(`create database ${name}`);
  return poolOf(server.url.replace(/postgres$/, name));
}

async function withStore(work: (store: PostgresStore, own: pg.Pool) => Promise<void>) {
  const own = await newDatabase();
  const store = await openPostgresStore({ pool: own, timeoutMs: 5_000 });
  try {
    await work(store, own);
  } finally {
    await store.close();
    await own.end();
  }
}

function record(text: string, state: NextRecord['state'] = 'pending'): NextRecord {
  return { bytes: Buffer.from(text), state, dueAt: null };
}

describe("records within the caller's transaction", () => {
  const id = { scope: 'shop', key: 'order' };

  it('[E7] a rollback leaves neither the record nor the business write', async () => {
    await withStore(async (store, own) => {
      await own.query('create table orders (name text)');
      const failing = store.transact(async (client) => {
        expect((await store.within(client).swap(id, null, record('claim'))).won).toBe(true);
        await client.query(`insert into orders values ('one')`);
        throw new Error('changed my mind');
      });
      await expect(failing).rejects.toThrow('changed my mind');
      expect(await store.read(id)).toBeNull();
      expect((await own.query('select * from orders')).rows).toEqual([]);
    });
  });

  it('[E7] a second transaction waits for the first and then sees its record', async () => {
    await withStore(async (store) => {
      let release = () => {};
      const gate = new Promise<void>((resolve) => {
        release = resolve;
      });
      let claimed = () => {};
      const firstClaimed = new Promise<void>((resolve) => {
        claimed = resolve;
      });
      const first = store.transact(async (client) => {
        await store.within(client).swap(id, null, record('first', 'committed'));
        claimed();
        await gate;
      });
      await firstClaimed;
      const second = store.transact((client) => {
        return store.within(client).swap(id, null, record('second', 'committed'));
      });
      release();
      await first;
      const result = await second;
      expect(result.won).toBe(false);
      if (!result.won) expect(result.current?.bytes.toString()).toBe('first');
    });
  });

  it('[E7] an open transaction holds up its own record and no other', async () => {
    const own = await newDatabase();
    const store = await openPostgresStore({ pool: own, timeoutMs: 700 });
    await store.transact(async (client) => {
      await store.within(client).swap(id, null, record('held'));
      const held = store.swap(id, null, record('other')).catch((error: unknown) => error);
      for (let at = 0; at < 20; at += 1) {
        const free = { scope: 'shop', key: `free ${at}` };
        expect((await store.swap(free, null, record('free'))).won).toBe(true);
      }
      expect(await held).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'no' });
    });
    expect((await store.swap(id, null, record('late'))).won).toBe(false);
    await store.close();
    await own.end();
  });
});

describe('a pool that wraps another', () => {
  type Query = (...args: unknown[]) => Promise<unknown>;
  const wrappings: Record<string, (query: Query) => Query> = {
    'passes on all that it is given':
      (query) =>
      async (...args) =>
        query(...args),
    'returns promises and ignores callbacks': (query) => (first, values) =>
      typeof first === 'string' ? query(first, values) : query(first),
  };

  it.each(Object.keys(wrappings))('[E1] may be one that %s', async (name) => {
    const own = await newDatabase();
    const wrapped: PgPool = {
      async connect() {
        const client = await own.connect();
        const query = wrappings[name]!(client.query.bind(client) as unknown as Query);
        return {
          query: query as PgPoolClient['query'],
          release: (destroy) => client.release(destroy),
          on: (event, listener) => client.on(event as 'error', listener),
          removeListener: (event, listener) => client.removeListener(event, listener),
        };
      },
    };
    const store = await openPostgresStore({ pool: wrapped, timeoutMs: 5_000 });
    try {
      const id = { scope: 'shop', key: 'order' };
      const claim = await store.swap(id, null, record('claim'));
      if (!claim.won) throw new Error('the claim was lost');
      expect((await store.swap(id, null, record('late'))).won).toBe(false);
      expect((await store.swap(id, claim.revision, record('done', 'committed'))).won).toBe(true);
      expect(String((await store.read(id))?.bytes)).toBe('done');
      await own.query('drop schema onceward cascade');
      await expect(store.read(id)).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
    } finally {
      await store.close();
      await own.end();
    }
  });
});

describe('the schema', () => {
  it('is created once by processes that start together', async () => {
    const own = await newDatabase();
    const stores = await Promise.all([1, 2, 3, 4].map(() => openPostgresStore({ pool: own })));
    const { rows } = await own.query('select version from onceward.migrations');
    expect(rows).toEqual([{ version: 1 }]);
    for (const store of stores) await store.close();
    await own.end();
  });

  it('is left without a connection by stores that are closed while they begin to listen', async () => {
    const own = await newDatabase();
    for (let ms = 0; ms < 20; ms += 1) {
      const store = await openPostgresStore({ pool: own });
      await new Promise((resolve) => setTimeout(resolve, ms / 4));
      await store.close();
    }
    // A pool ends when all its connections have come back.
    await own.end();
    expect(own.totalCount).toBe(0);
  });

  it.each([
    [0, 'open the store with migrate on'],
    [99, 'update onceward'],
  ])('is refused at version %i without migrate, with what to do', async (version, advice) => {
    const own = await newDatabase();
    await own.query('create schema onceward');
    await own.query('create table onceward.migrations (version int, applied_at timestamptz)');
    await own.query('insert into onceward.migrations values ($1, now())', [version]);
    await expect(openPostgresStore({ pool: own, migrate: false })).rejects.toThrow(
      `version ${version}, this code wants 1; ${advice}`,
    );
    await own.end();
  });

  it('is never read from end to end, although the table was empty when it was planned', async () => {
    await withStore(async (store, own) => {
      const cycle = async (name: string) => {
        const id = { scope: 'shop', key: name };
        const claim = await store.swap(id, null, record('claim'));
        if (!claim.won) throw new Error('a new key was taken');
        await store.swap(id, claim.revision, record('settled', 'committed'));
        await store.swap(id, claim.revision, record('too late', 'committed'));
      };
      for (let round = 0; round < 20; round += 1) {
        await Promise.all(Array.from({ length: 100 }, (_, at) => cycle(`${round}-${at}`)));
      }
      // A session hands in its counters when it ends.
      await store.close();
      const counters = async () => {
        const { rows } = await own.query(
          `select seq_tup_read::int as whole, idx_scan >= 8000 as indexed
           from pg_stat_user_tables where relname = 'records'`,
        );
        return rows[0] as unknown;
      };
      await expect.poll(counters, { timeout: 10_000 }).toEqual({ whole: 0, indexed: true });
    });
  });

  it('is refused when it is missing and may not be created', async () => {
    const own = await newDatabase();
    const opening = openPostgresStore({ pool: own, migrate: false });
    await expect(opening).rejects.toMatchObject({ code: 'ONCE_STORE_VERSION' });
    await own.end();
  });

  it('is refused in a database that cannot hold every key', async () => {
    await pool.query(
      `create database narrow encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0`,
    );
    const own = poolOf(server.url.replace(/postgres$/, 'narrow'));
    const opening = openPostgresStore({ pool: own });
    await expect(opening).rejects.toMatchObject({ code: 'ONCE_INVALID_CONFIG', message: /LATIN1/ });
    await own.end();
  });

  it('rejects the opening of the store when the connection breaks meanwhile', async () => {
    const own = await newDatabase();
    await (await openPostgresStore({ pool: own })).close();
    const holder = await own.connect();
    await holder.query('begin; lock table onceward.migrations');
    const opening = openPostgresStore({ pool: own }).catch((error: unknown) => error);
    const end = async () => {
      const { rows } = await own.query(
        `select pg_terminate_backend(pid) from pg_locks where not granted and pid <> pg_backend_pid()`,
      );
      return rows.length;
    };
    await expect.poll(end, { timeout: 5_000 }).toBe(1);
    expect(await opening).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
    await holder.query('rollback');
    holder.release();
    await own.end();
  });

  it('is refused when a column is not what it should be, or the version is newer', async () => {
    const own = await newDatabase();
    await (await openPostgresStore({ pool: own })).close();
    await own.query('alter table onceward.records add column surprise int');
    await expect(openPostgresStore({ pool: own })).rejects.toMatchObject({
      code: 'ONCE_STORE_VERSION',
    });
    await own.query('alter table onceward.records drop column surprise');
    await own.query('insert into onceward.migrations (version) values (99)');
    await expect(openPostgresStore({ pool: own })).rejects.toThrow('update onceward');
    await own.end();
  });
});

describe('what the store promises', () => {
  it('follows the settings of the server', async () => {
    const own = await newDatabase();
    const alone = await openPostgresStore({ pool: own });
    expect(alone.traits.durability).toBe('machine');
    await alone.close();
    const wish = openPostgresStore({ pool: own, durability: 'replicated' });
    await expect(wish).rejects.toThrow('synchronous_standby_names');
    await own.query('alter role postgres set synchronous_commit = off');
    const careless = poolOf(server.url);
    const weak = await openPostgresStore({ pool: careless });
    expect(weak.traits.durability).toBe('none');
    await weak.close();
    await careless.end();
    await own.query('alter role postgres reset synchronous_commit');
    await own.end();
  });

  it('[E4] wakes a waiter of another process by LISTEN', async () => {
    await withStore(async (store, own) => {
      const other = await openPostgresStore({ pool: own, timeoutMs: 5_000 });
      const id = { scope: 'shop', key: 'awaited' };
      const claimed = await store.swap(id, null, record('claim'));
      if (!claimed.won) throw new Error('the claim was lost');
      const limit = AbortSignal.timeout(15_000);
      const woken = other.changed?.(id, claimed.revision, limit);
      await new Promise((resolve) => setTimeout(resolve, 300));
      await store.swap(id, claimed.revision, record('settled', 'committed'));
      expect(woken).toBeDefined();
      await woken;
      expect(limit.aborted).toBe(false);
      await other.close();
    });
  });
});
