import { StoreError } from '../../engine/errors.ts';
import { refuseUnknown } from '../../engine/known-options.ts';
import { type DurationMs, SECOND } from '../../engine/units.ts';
import { type Durability, requireDurability } from '../durability.ts';
import { openInThread, shareDatabase } from './sqlite-access.ts';
import type { SqliteDatabase, SqliteDriver } from './sqlite-driver.ts';
import { SqliteStore } from './sqlite-store.ts';

export type { Durability, StoreFinding } from '../durability.ts';
export type {
  SqliteDatabase,
  SqliteDriver,
  SqliteRunResult,
  SqliteStatement,
  SqlValue,
} from './sqlite-driver.ts';
export type { SqliteStore } from './sqlite-store.ts';
export { transactionsOn } from './transactions.ts';

interface SharedOptions {
  /** How long a call may take, waiting for other processes included. */
  readonly timeoutMs?: DurationMs;
  /** Refuses to open unless the settings of the database prove at least this. */
  readonly durability?: Durability;
}

/** The file is opened in a thread of its own, in WAL mode and with full synchronisation. */
export interface SqlitePathOptions extends SharedOptions {
  readonly path: string;
  /** Which driver opens it; by default the first that can be loaded. */
  readonly driver?: SqliteDriver;
}

/** The store works on a connection that you opened, with the settings you gave it, on your event loop. */
export interface SqliteHandleOptions extends SharedOptions {
  readonly database: SqliteDatabase;
}

export type SqliteStoreOptions = SqlitePathOptions | SqliteHandleOptions;

const KNOWN = {
  path: true,
  driver: true,
  database: true,
  timeoutMs: true,
  durability: true,
} satisfies Record<keyof SqlitePathOptions | keyof SqliteHandleOptions, true>;

/**
 * Records in a SQLite file, which several processes of one machine may share. Claims and settles that come together
 * are written in one transaction.
 *
 * ```ts
 * const store = await openSqliteStore({ path: 'operations.db' });
 * ```
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<SqliteStore> {
  refuseUnknown('the sqlite store', options, KNOWN);
  const timeoutMs = options.timeoutMs ?? SECOND;
  if (!(timeoutMs > 0)) {
    const message = `timeoutMs is ${timeoutMs}; it must be above 0`;
    throw new StoreError('ONCE_INVALID_CONFIG', message, { applied: 'no' });
  }
  const access =
    'path' in options
      ? await openInThread({ path: options.path, driver: options.driver, timeoutMs })
      : await shareDatabase(options.database, timeoutMs);
  try {
    requireDurability('sqlite', options.durability, access.proof.durability, access.proof.findings);
  } catch (error) {
    await access.close();
    throw error;
  }
  return new SqliteStore(access, timeoutMs);
}
