import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type PostgresServer, startPostgres } from '../../../../../scripts/services/index.ts';
import type { OperationId, Revision } from '../../engine/record.ts';
import type { NextRecord, SwapResult } from '../../engine/record-store.ts';
import { openPostgresStore, type PgClient, type PostgresStore } from './index.ts';
import { hashOf, uuidText } from './record-rows.ts';

let server: PostgresServer;
let pool: pg.Pool;
let store: PostgresStore;

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.dispose());

beforeEach(async () => {
  pool = new pg.Pool({ connectionString: server.url });
  pool.on('error', () => {});
  store = await openPostgresStore({ pool, timeoutMs: 5_000 });
});
afterEach(async () => {
  await store.close();
  await pool.query('drop schema if exists onceward cascade');
  await pool.end();
});

const idOf = (key: string): OperationId => ({ scope: 'shop', key });

function record(text: string, state: NextRecord['state'] = 'pending'): NextRecord {
  return { bytes: Buffer.from(text), state, dueAt: null };
}

async function claim(key: string): Promise<Revision> {
  const result = await store.swap(idOf(key), null, record(`claim of ${key}`));
  if (!result.won) throw new Error(`${key} was taken`);
  return result.revision;
}

/** How many batches were written after that of one claim: each takes its revisions from the sequence once. */
async function batchesSince(claimed: Revision): Promise<number> {
  const { rows } = await pool.query('select last_value::int as value from onceward.revisions');
  return ((rows[0] as { value: number }).value - claimed) / 1_024;
}

async function textOf(key: string): Promise<string | null> {
  const stored = await store.read(idOf(key));
  return stored === null ? null : Buffer.from(stored.bytes).toString();
}

/** As if the sweep came between the statement that inserts and the one that reads the conflicting row. */
async function sweepOnInsert(): Promise<void> {
  await pool.query(`
    create function onceward.sweep() returns trigger language plpgsql as $$
    begin delete from onceward.records where key = 'swept' and state = 1; return null; end $$;
    create trigger sweep after insert on onceward.records execute function onceward.sweep()`);
}

describe('a batch', () => {
  it('[E1] answers each of its swaps by itself, in whatever order they came', async () => {
    const settled = await claim('settled');
    const taken = await claim('taken');
    const removed = await claim('removed');
    const kept = await claim('kept');
    const last = await claim('last');
    const done = record('done', 'committed');
    const current = (revision: Revision, key: string) => ({
      won: false,
      current: { revision, bytes: Buffer.from(`claim of ${key}`) },
    });
    const won = { won: true, revision: expect.any(Number) };
    const lostToNothing = { won: false, current: null };
    const cases: [string, Revision | null, NextRecord | null, unknown][] = [
      ['kept', kept + 9_999, null, current(kept, 'kept')],
      ['settled', settled, done, won],
      ['new', null, record('new'), won],
      ['removed', removed, null, won],
      ['taken', null, record('late'), current(taken, 'taken')],
      ['unknown', 1, done, lostToNothing],
      ['absent', null, null, won],
      ['last', last - 1, done, current(last, 'last')],
      ['never', 1, null, lostToNothing],
      ['also new', null, done, won],
    ];
    const results = await Promise.all(
      cases.map(([key, expected, next]) => store.swap(idOf(key), expected, next)),
    );
    expect(await batchesSince(last)).toBe(1);
    expect(results).toEqual(cases.map(([, , , answer]) => answer));
    const revisions = results.filter((result) => result.won).map((result) => result.revision);
    expect(new Set(revisions).size).toBe(revisions.length);
    expect(Math.min(...revisions)).toBeGreaterThan(last);
    expect((await store.read(idOf('settled')))?.revision).toBe(revisions[0]);
    expect((await store.read(idOf('new')))?.revision).toBe(revisions[1]);
    const texts = ['settled', 'new', 'removed', 'taken', 'unknown', 'last', 'also new'].map(textOf);
    const claimed = (key: string) => `claim of ${key}`;
    expect(await Promise.all(texts)).toEqual([
      'done',
      'new',
      null,
      claimed('taken'),
      null,
      claimed('last'),
      'done',
    ]);
  });

  it('[E1] goes on without those that an open transaction is writing, of each kind', async () => {
    const changed = await claim('changed');
    const gone = await claim('gone');
    const free = await claim('free');
    const held: Promise<SwapResult>[] = [];
    await store.transact(async (client) => {
      const joined = store.within(client);
      await joined.swap(idOf('new'), null, record('theirs'));
      await joined.swap(idOf('changed'), changed, record('theirs'));
      await joined.swap(idOf('gone'), gone, record('theirs'));
      held.push(
        store.swap(idOf('new'), null, record('ours')),
        store.swap(idOf('changed'), changed, record('ours')),
        store.swap(idOf('gone'), gone, null),
      );
      const passing = await Promise.all([
        store.swap(idOf('passing'), null, record('ours')),
        store.swap(idOf('free'), free, record('ours')),
        store.swap(idOf('absent'), null, null),
      ]);
      expect(passing.map(({ won }) => won)).toEqual([true, true, true]);
    });
    for (const result of await Promise.all(held)) {
      expect(result).toMatchObject({ won: false, current: { bytes: Buffer.from('theirs') } });
    }
    expect(await textOf('passing')).toBe('ours');
    expect(await textOf('free')).toBe('ours');
  });

  it('[E10] is not corrupted by rows that belong to another operation', async () => {
    const odd = await claim('odd');
    // As if another operation had the same hash.
    await pool.query(`update onceward.records set key = 'someone else', revision = revision + 500`);
    const results = await Promise.allSettled([
      store.swap(idOf('odd'), odd, record('done', 'committed')),
      ...Array.from({ length: 10 }, (_, at) => store.swap(idOf(`${at}`), null, record('new'))),
    ]);
    const unreadable = { code: 'ONCE_RECORD_UNREADABLE', applied: 'no' };
    expect(results[0]).toMatchObject({ reason: unreadable });
    for (const result of results.slice(1)) expect(result).toMatchObject({ value: { won: true } });
    await expect(store.swap(idOf('odd'), null, record('new'))).rejects.toMatchObject(unreadable);
    await expect(store.read(idOf('odd'))).rejects.toMatchObject(unreadable);
  });

  it('[E1] finds its place taken or free while what is due is swept away', async () => {
    const keys = Array.from({ length: 40 }, (_, at) => `short-lived ${at}`);
    let forgotten = 0;
    let written = 0;
    for (let round = 0; round < 60; round += 1) {
      const swaps = keys.map((key) =>
        store.swap(idOf(key), null, { ...record('kept a moment', 'committed'), dueAt: 1 }),
      );
      const sweep = store.forgetDue(2, 1_000);
      for (const result of await Promise.all(swaps)) {
        written += result.won ? 1 : 0;
        if (!result.won) expect(result.current).not.toBeNull();
      }
      forgotten += await sweep;
    }
    forgotten += await store.forgetDue(2, 1_000);
    expect(forgotten).toBe(written);
    expect(written).toBeGreaterThan(keys.length);
  });

  it('[E1] asks again where a record stood in its way and was swept before it could be shown', async () => {
    await claim('swept');
    await sweepOnInsert();
    const result = await store.swap(idOf('swept'), null, record('next', 'committed'));
    expect(result.won).toBe(true);
    expect(await textOf('swept')).toBe('next');
  });
});

/** Until a session waits for a lock that another transaction has. */
async function untilSomebodyWaits(): Promise<void> {
  const waiting = async () => {
    const { rows } = await pool.query('select 1 from pg_locks where not granted');
    return rows.length;
  };
  await expect.poll(waiting, { timeout: 5_000, interval: 5 }).toBe(1);
}

describe('a transaction of the caller', () => {
  it('[E5] that waited for another gets a higher revision than any of that one', async () => {
    const id = idOf('handed over');
    let after: Promise<SwapResult> | undefined;
    const settled = await store.transact(async (client) => {
      const joined = store.within(client);
      const claimed = await joined.swap(id, null, record('first'));
      if (!claimed.won) throw new Error('the claim was lost');
      after = store.transact((other) => store.within(other).swap(id, null, record('second')));
      await untilSomebodyWaits();
      const changed = await joined.swap(id, claimed.revision, record('changed'));
      if (!changed.won) throw new Error('the change was lost');
      await joined.swap(id, changed.revision, null);
      return changed.revision;
    });
    const taken = await after;
    if (!taken?.won) throw new Error('the second claim was lost');
    expect(taken.revision).toBeGreaterThan(settled);
  });

  it('[E7] asks again where a record stood in its way and was swept before it could be shown', async () => {
    await claim('swept');
    await sweepOnInsert();
    const swap = (client: PgClient) =>
      store.within(client).swap(idOf('swept'), null, record('next', 'committed'));
    expect((await store.transact(swap)).won).toBe(true);
    expect(await textOf('swept')).toBe('next');
  });

  it('[E7] of which a statement failed is not reported as done, though nobody let the error through', async () => {
    const ending = store.transact(async (client) => {
      const result = await store.within(client).swap(idOf('order'), null, record('x', 'committed'));
      await client.query('select 1 / 0').catch(() => {});
      return result;
    });
    await expect(ending).rejects.toMatchObject({ applied: 'no', message: /rolled back/ });
    expect(await store.read(idOf('order'))).toBeNull();
  });

  it('[E7] that is rolled back disturbs nobody who reads', async () => {
    await claim('read');
    let isOver = false;
    let rolledBack = 0;
    const rollingBack = (async () => {
      while (!isOver) {
        await store.transact(() => Promise.reject(new Error('no'))).catch(() => {});
        rolledBack += 1;
      }
    })();
    try {
      for (let reads = 0; reads < 300; reads += 1) expect(await textOf('read')).not.toBeNull();
    } finally {
      isOver = true;
      await rollingBack;
    }
    expect(rolledBack).toBeGreaterThan(10);
  });

  it('[E1] that has a waiter in its hands, as the sweep may, holds up nobody', async () => {
    const claimed = await claim('awaited');
    const waiter = [uuidText(hashOf(idOf('awaited')))];
    await pool.query('insert into onceward.waiting values ($1, now())', waiter);
    await store.transact(async (client) => {
      await client.query('select * from onceward.waiting for update');
      const settled = await store.swap(idOf('awaited'), claimed, record('done', 'committed'));
      expect(settled.won).toBe(true);
    });
  });

  it('[E1] that has told a waiter holds up neither the sweep nor anybody else', async () => {
    const told = await claim('told');
    const other = await claim('other');
    // In this order the sweep comes by the other one first.
    for (const key of ['other', 'told']) {
      const values = [uuidText(hashOf(idOf(key)))];
      await pool.query(
        `insert into onceward.waiting values ($1, now() - interval '1 hour')`,
        values,
      );
    }
    await store.transact(async (client) => {
      await store.within(client).swap(idOf('told'), told, record('done', 'committed'));
      const sweep = store.forgetDue(0, 10);
      const swaps = [
        store.swap(idOf('other'), other, record('done', 'committed')),
        store.swap(idOf('new'), null, record('new')),
      ];
      expect((await Promise.all(swaps)).map(({ won }) => won)).toEqual([true, true]);
      await sweep;
    });
    expect((await pool.query('select * from onceward.waiting')).rows).toEqual([]);
  });

  it('[E7] that cannot see a younger record fails as PostgreSQL lets it fail, and leaves nothing', async () => {
    await pool.query('create table if not exists orders (name text)');
    const client = await pool.connect();
    try {
      await client.query('begin isolation level repeatable read');
      await client.query(`insert into orders values ('one')`);
      await store.swap(idOf('order'), null, record('younger', 'committed'));
      const late = store.within(client).swap(idOf('order'), null, record('late', 'committed'));
      await expect(late).rejects.toMatchObject({ applied: 'no', cause: { code: '40001' } });
      await client.query('rollback');
    } finally {
      client.release();
    }
    expect(await textOf('order')).toBe('younger');
    expect((await pool.query('select * from orders')).rows).toEqual([]);
    await pool.query('drop table orders');
  });
});
