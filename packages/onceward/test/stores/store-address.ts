import pg from 'pg';
import type { RecordStore } from '../../src/engine/record-store.ts';
import { openEtcdStore } from '../../src/stores/etcd/index.ts';
import { openPostgresStore, type PostgresStore } from '../../src/stores/postgres/index.ts';
import { openRedisStore } from '../../src/stores/redis/index.ts';
import {
  openSqliteStore,
  type SqliteDatabase,
  type SqliteStore,
} from '../../src/stores/sqlite/index.ts';
import { DRIVER, openWithDriver } from '../../src/stores/sqlite/sqlite.fixture.ts';

/** Says where a store is, in words that can be sent to another process. */
export interface StoreAddress {
  readonly kind: 'redis' | 'postgres' | 'sqlite' | 'etcd';
  /** A URL, or the path of the file. */
  readonly at: string;
  readonly timeoutMs: number;
}

export async function openStoreAt(address: StoreAddress): Promise<RecordStore> {
  const { at, timeoutMs } = address;
  switch (address.kind) {
    case 'redis':
      return openRedisStore({ url: at, timeoutMs });
    case 'postgres':
      return openPostgresAt(address);
    case 'sqlite':
      return openSqliteStore({ path: at, driver: DRIVER, timeoutMs });
    case 'etcd':
      return openEtcdStore({ endpoints: [at], timeoutMs });
  }
}

export function openPostgresAt({ at, timeoutMs }: StoreAddress): Promise<PostgresStore> {
  const pool = new pg.Pool({ connectionString: at, allowExitOnIdle: true });
  pool.on('error', () => {});
  return openPostgresStore({ pool, timeoutMs });
}

export async function openSqliteAt(
  address: StoreAddress,
): Promise<{ store: SqliteStore; database: SqliteDatabase }> {
  const store = (await openStoreAt(address)) as SqliteStore;
  const database = openWithDriver(address.at);
  for (const pragma of ['journal_mode = wal', 'synchronous = full', 'busy_timeout = 5000']) {
    database.exec(`pragma ${pragma}`);
  }
  return { store, database };
}
