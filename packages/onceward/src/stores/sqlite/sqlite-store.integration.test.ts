import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { committed, operation } from '../../engine/engine.fixture.ts';
import { Engine } from '../../engine/engine.ts';
import type { RecordStore } from '../../engine/record-store.ts';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { manualWorld } from '../../testing/manual-world.ts';
import { storeSuite } from '../../testing/stores/store-suite.ts';
import { openSqliteStore, type SqliteDatabase, type SqliteDriver } from './index.ts';
import { DRIVER, openWithDriver } from './sqlite.fixture.ts';

const folder = mkdtempSync(join(tmpdir(), 'onceward-sqlite-'));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
const newFile = () => join(folder, `${files++}.db`);

function openHandle(path: string): SqliteDatabase {
  const database = openWithDriver(path);
  for (const pragma of ['journal_mode = wal', 'synchronous = full']) {
    database.exec(`pragma ${pragma}`);
  }
  return database;
}

function suiteInThread(driver: SqliteDriver): void {
  storeSuite({
    name: `sqlite in a thread through ${driver}`,
    timeoutMs: 60_000,
    skip: { 'survives-kill': 'killed with its process in processes.integration.test.ts' },
    async open() {
      const path = newFile();
      let store: RecordStore = await openSqliteStore({ path, driver, timeoutMs: 15_000 });
      return {
        store,
        async reopen() {
          await store.close();
          store = await openSqliteStore({ path, driver, timeoutMs: 15_000 });
          return store;
        },
        close: () => store.close(),
      };
    },
  });
}

suiteInThread(DRIVER);

storeSuite({
  name: `sqlite on a connection of ${DRIVER} that was given`,
  timeoutMs: 60_000,
  skip: { 'survives-kill': 'killed with its process in processes.integration.test.ts' },
  async open() {
    const path = newFile();
    let database = openHandle(path);
    let store: RecordStore = await openSqliteStore({ database, timeoutMs: 15_000 });
    return {
      store,
      async reopen() {
        await store.close();
        database.close();
        database = openHandle(path);
        store = await openSqliteStore({ database, timeoutMs: 15_000 });
        return store;
      },
      async close() {
        await store.close();
        database.close();
      },
    };
  },
});

describe('sqlite promises only what its settings prove', () => {
  it('calls itself safe against a power cut only with full synchronisation', async () => {
    const database = openWithDriver(newFile());
    database.exec('pragma journal_mode = wal');
    database.exec('pragma synchronous = normal');
    const store = await openSqliteStore({ database, timeoutMs: 15_000 });
    expect(store.traits.durability).toBe('process');
    expect(store.findings.find((one) => one.setting === 'synchronous')?.says).toContain('full');
    const refusal = openSqliteStore({ database, durability: 'machine' });
    await expect(refusal).rejects.toMatchObject({ code: 'ONCE_INVALID_CONFIG' });
    database.close();
  });

  it('sets full synchronisation itself on a file that it opens', async () => {
    const store = await openSqliteStore({ path: newFile(), driver: DRIVER });
    expect(store.traits.durability).toBe('machine');
    await store.close();
  });
});

/** The same connection, as another copy of SQLite would answer on it. */
function ofAnotherCopy(database: SqliteDatabase): SqliteDatabase {
  const prepare: SqliteDatabase['prepare'] = (sql) =>
    database.prepare(sql.replace('sqlite_source_id()', "'another copy'"));
  return { prepare, exec: (sql) => database.exec(sql), close: () => database.close() };
}

it('[E7] a transaction of another copy of SQLite is refused before anything is written', async () => {
  const path = newFile();
  const store = await openSqliteStore({ path, driver: DRIVER });
  const database = openHandle(path);
  expect(() => store.within(ofAnotherCopy(database))).toThrow(/two copies of SQLite/);
  expect(store.within(database).traits.name).toBe('sqlite');
  database.close();
  await store.close();
});

it('[E10] the engine reads what a scan gives: it lists', async () => {
  const store = await openSqliteStore({ path: newFile(), driver: DRIVER, timeoutMs: 15_000 });
  const world = manualWorld();
  const engine = new Engine({ store, world, platform: nodePlatform() });
  await engine.execute(operation, async () => committed('kept'));
  const listed: (string | undefined)[] = [];
  for await (const { record } of engine.list({ limit: 10 })) listed.push(record?.state);
  expect(listed).toEqual(['committed']);
  await engine.close();
  await store.close();
});

it('refuses a table with a column more at once, whatever it is called', async () => {
  const path = newFile();
  await (await openSqliteStore({ path, driver: DRIVER })).close();
  const other = openWithDriver(path);
  other.exec('alter table onceward_records add column locked_at');
  other.close();
  const refusal = openSqliteStore({ path, driver: DRIVER });
  await expect(refusal).rejects.toMatchObject({ code: 'ONCE_STORE_VERSION' });
});

it('opens a new file as soon as another process lets go of it', async () => {
  const path = newFile();
  const holder = openWithDriver(path);
  holder.exec('begin exclusive');
  const opening = openSqliteStore({ path, driver: DRIVER, timeoutMs: 15_000 });
  const early = await Promise.race([opening.then(() => 'opened'), sleep(500)]);
  expect(early).toBeUndefined();
  holder.exec('create table other (n); commit');
  const store = await opening;
  expect(store.traits.durability).toBe('machine');
  await store.close();
  holder.close();
});
