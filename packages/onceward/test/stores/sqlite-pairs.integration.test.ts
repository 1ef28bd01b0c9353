import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createOnceward, profiles } from '../../src/index.ts';
import {
  openSqliteStore,
  type SqliteDatabase,
  transactionsOn,
} from '../../src/stores/sqlite/index.ts';
import { DRIVERS, openDatabase, type SqliteDriver } from '../../src/stores/sqlite/sqlite-driver.ts';

const folder = mkdtempSync(join(tmpdir(), 'onceward-pairs-'));
afterAll(() => rmSync(folder, { recursive: true }));

function canLoad(driver: SqliteDriver): boolean {
  try {
    createRequire(import.meta.url)(driver);
    return true;
  } catch {
    return false;
  }
}

// Node has a driver of its own from 22.13 on.
const drivers = DRIVERS.filter(canLoad);
const pairs = drivers.flatMap((store) => drivers.map((caller) => ({ store, caller })));

const COMMITTED = {
  as: 'committed',
  outcome: { contentType: 'text/plain', bytes: Buffer.from('done') },
} as const;

const OPERATION = {
  id: { scope: 'orders', key: 'one' },
  fingerprint: 'f',
  effect: { kind: 'transaction' },
  policy: profiles.http,
} as const;

function countIn(database: SqliteDatabase): number {
  return Number((database.prepare('select count(*) as n from orders').get() as { n: number }).n);
}

describe.each(pairs)('a store of $store beside a connection of $caller', ({ store, caller }) => {
  const isSame = store === caller;
  it(`[E7] ${isSame ? 'shares its transactions' : 'is refused before anything is written'}`, async () => {
    const path = join(folder, `${store}-${caller}.db`.replace(':', '-'));
    const records = await openSqliteStore({ path, driver: store });
    const database = openDatabase(path, caller, [import.meta.url]);
    const engine = createOnceward({ store: records, sweep: false });
    database.exec('create table orders (name text)');
    const placing = engine.executeWithin(OPERATION, transactionsOn(database), async (_, tx) => {
      tx.prepare('insert into orders values (?)').run('one');
      return COMMITTED;
    });
    if (isSame) expect((await placing).kind).toBe('executed');
    else {
      const message = expect.stringContaining('open the store with the same one');
      await expect(placing).rejects.toMatchObject({ code: 'ONCE_INVALID_CONFIG', message });
    }
    expect(countIn(database)).toBe(isSame ? 1 : 0);
    expect((await engine.read(OPERATION.id))?.state).toBe(isSame ? 'committed' : undefined);
    await engine.close();
    await records.close();
    database.close();
  });
});

it.each(drivers)('[E7] a store on a connection of %s shares its transactions', async (driver) => {
  const database = openDatabase(join(folder, `own-${driver}.db`.replace(':', '-')), driver, [
    import.meta.url,
  ]);
  database.exec('create table orders (name text)');
  const records = await openSqliteStore({ database });
  const engine = createOnceward({ store: records, sweep: false });
  const place = () =>
    engine.executeWithin(OPERATION, transactionsOn(database), async (_, tx) => {
      tx.prepare('insert into orders values (?)').run('one');
      return COMMITTED;
    });
  expect([(await place()).kind, (await place()).kind]).toEqual(['executed', 'replayed']);
  expect(countIn(database)).toBe(1);
  await engine.close();
  await records.close();
  database.close();
});
