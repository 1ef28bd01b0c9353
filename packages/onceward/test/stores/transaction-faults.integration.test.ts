import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type PostgresServer, startPostgres } from '../../../../scripts/services/index.ts';
import { OncewardError } from '../../src/engine/errors.ts';
import { createOnceward, type Engine, profiles } from '../../src/index.ts';
import {
  openPostgresStore,
  type PgClient,
  type PostgresStore,
} from '../../src/stores/postgres/index.ts';
import { type FaultProxy, startFaultProxy } from '../../src/testing/fault-proxy.ts';

const TIMEOUT_MS = 800;
const TRANSACTION_TIMEOUT_MS = 2_000;
/** What ending a transaction may take on top: its ROLLBACK or COMMIT, a read of the record, a busy machine. */
const SLACK_MS = 2 * TIMEOUT_MS + 2_000;

const COMMITTED = {
  as: 'committed',
  outcome: { contentType: 'text/plain', bytes: Buffer.from('done') },
} as const;

describe('a transaction whose PostgreSQL is in trouble', () => {
  let server: PostgresServer;
  let proxy: FaultProxy;
  let pool: pg.Pool;
  let direct: pg.Pool;
  let store: PostgresStore;
  let engine: Engine;

  beforeAll(async () => {
    server = await startPostgres();
    proxy = await startFaultProxy(server.port);
    const user = { user: 'postgres', database: 'postgres', host: '127.0.0.1' };
    pool = new pg.Pool({ ...user, port: proxy.port });
    direct = new pg.Pool({ ...user, port: server.port });
    for (const one of [pool, direct]) one.on('error', () => {});
    await direct.query('create table orders (name text primary key)');
    store = await openPostgresStore({
      pool,
      timeoutMs: TIMEOUT_MS,
      transactionTimeoutMs: TRANSACTION_TIMEOUT_MS,
    });
    engine = createOnceward({ store, sweep: false });
    await engine.ping();
  }, 60_000);
  afterEach(async () => {
    proxy.refuse(false);
    proxy.set({});
    proxy.reset();
    await sleep(300);
  });
  afterAll(async () => {
    await engine.close();
    await store.close();
    await pool.end();
    await direct.end();
    await proxy.close();
    await server.dispose();
  });

  function order(key: string, work: (client: PgClient) => Promise<unknown>, signal?: AbortSignal) {
    const operation = {
      id: { scope: 'orders', key },
      fingerprint: 'an order',
      effect: { kind: 'transaction' },
      policy: profiles.http,
      ...(signal === undefined ? {} : { signal }),
    } as const;
    return engine.executeWithin(operation, store.transact, async (_attempt, client: PgClient) => {
      await client.query('insert into orders values ($1)', [key]);
      await work(client);
      return COMMITTED;
    });
  }

  async function timed<T>(run: () => Promise<T>): Promise<{ result: T; ms: number }> {
    const began = performance.now();
    return { result: await run(), ms: performance.now() - began };
  }

  const countOrders = async (key: string) =>
    (await direct.query('select 1 from orders where name = $1', [key])).rows.length;

  /** A retry on a healthy connection finds that nothing happened, and makes it happen once. */
  async function retryPlacesOne(key: string): Promise<void> {
    proxy.set({});
    proxy.reset();
    await sleep(300);
    expect(await countOrders(key)).toBe(0);
    expect((await order(key, async () => {})).kind).toBe('executed');
    expect((await order(key, async () => {})).kind).toBe('replayed');
    expect(await countOrders(key)).toBe(1);
  }

  it('[E12] an effect does not begin when its transaction was given up while the claim waited', async () => {
    let letGo = () => {};
    const held = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    let isHeld = () => {};
    const holding = new Promise<void>((resolve) => {
      isHeld = resolve;
    });
    const first = order('given-up', async () => {
      isHeld();
      await held;
    });
    await holding;
    const client = await direct.connect();
    let working: Promise<unknown> = Promise.resolve();
    let begun = false;
    // As transactions of an ORM do: the time is up, and what runs within is left to itself.
    const transact = async <T>(work: (client: PgClient) => Promise<T>): Promise<T> => {
      await client.query('begin');
      const result = work(client);
      working = result.catch(() => {});
      return Promise.race([result, sleep(200).then(() => Promise.reject(new Error('too slow')))]);
    };
    const operation = {
      id: { scope: 'orders', key: 'given-up' },
      fingerprint: 'an order',
      effect: { kind: 'transaction' },
      policy: profiles.http,
    } as const;
    const second = await engine.executeWithin(operation, transact, async () => {
      begun = true;
      return COMMITTED;
    });
    expect(second).toMatchObject({ kind: 'refused', reason: 'store_unavailable' });
    // The first is taken back, so that the claim of the second succeeds.
    const failed = first.catch((error: Error) => error.message);
    await direct.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where state = 'idle in transaction' and pid <> pg_backend_pid()`);
    letGo();
    await failed;
    await working;
    await client.query('rollback');
    client.release();
    expect(begun).toBe(false);
  });

  it('[E12] a connection that falls silent under the effect is given up in time, as rolled back', async () => {
    let signal: AbortSignal | null = null;
    const operation = {
      id: { scope: 'orders', key: 'silent' },
      fingerprint: 'an order',
      effect: { kind: 'transaction' },
      policy: profiles.http,
    } as const;
    const { result, ms } = await timed(() =>
      engine.executeWithin(operation, store.transact, async (attempt, client: PgClient) => {
        signal = attempt.signal;
        await client.query('insert into orders values ($1)', ['silent']);
        proxy.set({ toServer: { kind: 'blackhole' }, toClient: { kind: 'blackhole' } });
        await client.query('select 1');
        return COMMITTED;
      }),
    );
    expect(result).toMatchObject({ kind: 'refused', reason: 'rolled_back', retry: 'same_key' });
    expect(ms).toBeLessThan(TRANSACTION_TIMEOUT_MS + SLACK_MS);
    expect((signal as AbortSignal | null)?.aborted).toBe(true);
    await retryPlacesOne('silent');
  });

  it('[E12] work that never ends is given up in time, and its claim with it', async () => {
    const { result, ms } = await timed(() => order('endless', () => new Promise(() => {})));
    expect(result).toMatchObject({ kind: 'refused', reason: 'rolled_back' });
    expect(ms).toBeLessThan(TRANSACTION_TIMEOUT_MS + SLACK_MS);
    await retryPlacesOne('endless');
  });

  it('[E12] a connection that is reset under the effect is reported as rolled back, with its cause', async () => {
    const result = await order('reset', async (client) => {
      proxy.reset();
      await client.query('select 1');
    });
    expect(result).toMatchObject({ kind: 'refused', reason: 'rolled_back' });
    expect((result as { cause?: unknown }).cause).toBeInstanceOf(OncewardError);
    await retryPlacesOne('reset');
  });

  it('[E12] a server that ends the connection under the effect is reported as rolled back', async () => {
    const result = await order('ended', async (client) => {
      const { rows } = await client.query('select pg_backend_pid() as pid');
      await direct.query('select pg_terminate_backend($1)', [(rows[0] as { pid: number }).pid]);
      await client.query('select 1');
    });
    expect(result).toMatchObject({ kind: 'refused', reason: 'rolled_back' });
    await retryPlacesOne('ended');
  });

  it('[E12] a server that is away is reported as unavailable, in time', async () => {
    proxy.refuse(true);
    proxy.reset();
    const { result, ms } = await timed(() => order('away', async () => {}));
    expect(result).toMatchObject({ kind: 'refused', reason: 'store_unavailable' });
    expect(ms).toBeLessThan(SLACK_MS);
    proxy.refuse(false);
    await retryPlacesOne('away');
  });

  it('[E12] a slow connection is waited for', async () => {
    proxy.set({ toClient: { kind: 'delay', ms: 100 } });
    expect((await order('slow', async () => {})).kind).toBe('executed');
    expect(await countOrders('slow')).toBe(1);
  });

  it('[E4] a caller that leaves while another transaction holds the key is let go in the time of one call', async () => {
    let end = () => {};
    const holding = order('held', () => new Promise<void>((resolve) => (end = resolve)));
    await sleep(300);
    const leaving = new AbortController();
    const waiting = timed(() => order('held', async () => {}, leaving.signal));
    await sleep(200);
    leaving.abort();
    const { result, ms } = await waiting;
    expect(result).toMatchObject({ kind: 'refused', reason: 'deadline' });
    expect(ms).toBeLessThan(200 + TIMEOUT_MS + 800);
    end();
    expect((await holding).kind).toBe('executed');
    expect(await countOrders('held')).toBe(1);
  });

  it('[E12] the error of an effect stays its own while the connection is in order', async () => {
    await direct.query(`insert into orders values ('taken')`);
    const failing = order('taken', async () => {});
    await expect(failing).rejects.toMatchObject({ code: '23505' });
  });

  it('[E12] a commit whose answer is lost has a code for callers of transact alone', async () => {
    const committing = store.transact(async (client) => {
      await client.query(`insert into orders values ('unanswered')`);
      proxy.set({ toClient: { kind: 'blackhole' } });
    });
    await expect(committing).rejects.toMatchObject({
      code: 'ONCE_STORE_UNAVAILABLE',
      applied: 'unknown',
    });
  });

  it('a transaction timeout that no timer can hold is refused', async () => {
    const opening = openPostgresStore({ pool: direct, transactionTimeoutMs: 2 ** 31 });
    await expect(opening).rejects.toThrow(/transactionTimeoutMs is 2147483648/);
  });
});
