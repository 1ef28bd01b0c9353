import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { createOnceward, profiles } from '../../src/index.ts';
import {
  openSqliteStore,
  type SqliteDatabase,
  transactionsOn,
} from '../../src/stores/sqlite/index.ts';
import { DRIVER, openWithDriver } from '../../src/stores/sqlite/sqlite.fixture.ts';

const folder = mkdtempSync(join(tmpdir(), 'onceward-sharing-'));
afterAll(() => rmSync(folder, { recursive: true }));

const COMMITTED = {
  as: 'committed',
  outcome: { contentType: 'text/plain', bytes: Buffer.from('done') },
} as const;

function openHandle(path: string): SqliteDatabase {
  const database = openWithDriver(path);
  database.exec('pragma journal_mode = wal');
  database.exec('pragma synchronous = normal');
  database.exec('create table if not exists orders (name text)');
  return database;
}

describe.each(['in a thread', 'on the same connection'])('a store %s', (how) => {
  it('[E12] is not kept from its file by transactions that follow each other without a pause', async () => {
    const path = join(folder, `${how}.db`);
    const database = openHandle(path);
    const store = await openSqliteStore(
      how === 'in a thread' ? { path, driver: DRIVER } : { database },
    );
    const engine = createOnceward({ store, sweep: false });
    const transact = transactionsOn(database, 10_000);
    const until = performance.now() + 4_000;
    let transactions = 0;
    const insert = async () => {
      while (performance.now() < until) {
        await transact(async (tx) => void tx.prepare('insert into orders values (?)').run('one'));
        transactions += 1;
      }
    };
    const inserting = Promise.all(Array.from({ length: 8 }, insert));
    const told: string[] = [];
    for (let at = 0; performance.now() < until; at += 1) {
      const execution = await engine.execute(
        {
          id: { scope: 'orders', key: `${at}` },
          fingerprint: 'f',
          effect: { kind: 'external', onLapse: 'in_doubt' },
          policy: profiles.http,
        },
        async () => COMMITTED,
      );
      told.push(execution.kind);
    }
    await inserting;
    expect(new Set(told)).toEqual(new Set(['executed']));
    expect(told.length).toBeGreaterThan(5);
    expect(transactions).toBeGreaterThan(20);
    await engine.close();
    await store.close();
    database.close();
  });
});

it('[E7] a commit that SQLite refuses is reported as rolled back, and the connection is free again', async () => {
  const path = join(folder, 'refused.db');
  const database = openHandle(path);
  database.exec(`pragma foreign_keys = on;
    create table lines (name text references names(name) deferrable initially deferred);
    create table names (name text primary key)`);
  const store = await openSqliteStore({ path, driver: DRIVER });
  const engine = createOnceward({ store, sweep: false });
  const transact = transactionsOn(database);
  const place = (known: boolean) =>
    engine.executeWithin(
      {
        id: { scope: 'lines', key: 'one' },
        fingerprint: 'f',
        effect: { kind: 'transaction' },
        policy: profiles.http,
      },
      transact,
      async (_attempt, tx) => {
        tx.prepare('insert into lines values (?)').run('one');
        if (known) tx.prepare('insert into names values (?)').run('one');
        return COMMITTED;
      },
    );
  expect(await place(false)).toMatchObject({ kind: 'refused', reason: 'rolled_back' });
  expect((await place(true)).kind).toBe('executed');
  expect((await place(true)).kind).toBe('replayed');
  expect(database.prepare('select * from lines').all()).toHaveLength(1);
  await engine.close();
  await store.close();
  database.close();
});

it('[E12] a commit that a reader holds up is tried again, and taken back when its time is up', async () => {
  const path = join(folder, 'reader.db');
  const database = openWithDriver(path);
  database.exec('pragma journal_mode = delete');
  database.exec('pragma busy_timeout = 0');
  database.exec('create table orders (name text)');
  const store = await openSqliteStore({ database, timeoutMs: 300 });
  const reader = openWithDriver(path);
  const record = { bytes: Buffer.from('a record'), state: 'pending', dueAt: null } as const;
  const id = { scope: 'orders', key: 'held' };
  reader.exec('begin');
  reader.prepare('select count(*) from orders').get();
  const refusal = { code: 'ONCE_STORE_UNAVAILABLE' };
  await expect(store.swap(id, null, record)).rejects.toMatchObject(refusal);
  // A refused write may still be retried for a moment.
  await sleep(100);
  reader.exec('commit');
  database.exec('begin');
  database.exec('rollback');
  expect(await store.read(id)).toBeNull();
  expect((await store.swap(id, null, record)).won).toBe(true);
  await store.close();
  reader.close();
  database.close();
});
