import { createRequire } from 'node:module';
import { StoreError } from '../../engine/errors.ts';

/** The slice that `node:sqlite`, `better-sqlite3` and `libsql` have in common. */
export interface SqliteDatabase {
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
  close(): unknown;
  /** Whether a transaction is open, where the driver reports it: under either name. */
  readonly inTransaction?: boolean;
  readonly isTransaction?: boolean;
}

export interface SqliteStatement {
  run(...parameters: SqlValue[]): SqliteRunResult;
  get(...parameters: SqlValue[]): unknown;
  all(...parameters: SqlValue[]): unknown[];
}

export interface SqliteRunResult {
  readonly changes: number | bigint;
}

export type SqlValue = string | number | null | Uint8Array;

export const DRIVERS = ['node:sqlite', 'better-sqlite3', 'libsql'] as const;

export type SqliteDriver = (typeof DRIVERS)[number];

type Constructor = new (path: string) => SqliteDatabase;

/** Opens the file with the driver that was named, or with the first that can be loaded. */
export function openDatabase(
  path: string,
  driver: SqliteDriver | undefined,
  homes: readonly string[],
): SqliteDatabase {
  const failures: string[] = [];
  for (const name of driver === undefined ? DRIVERS : [driver]) {
    let Database: Constructor;
    try {
      Database = loadDriver(name, homes);
    } catch (error) {
      failures.push(`${name}: ${(error as Error).message.split('\n')[0]}`);
      continue;
    }
    return new Database(path);
  }
  throw new StoreError(
    'ONCE_INVALID_CONFIG',
    `no SQLite driver can be loaded; use Node 22.13 or later, or install better-sqlite3 or libsql. ${failures.join('; ')}`,
    { applied: 'no' },
  );
}

function loadDriver(name: SqliteDriver, homes: readonly string[]): Constructor {
  const loaded = requireFrom(name, homes) as Constructor & { DatabaseSync?: Constructor };
  const Database = loaded.DatabaseSync ?? loaded;
  if (typeof Database !== 'function') throw new Error('it exports no database');
  return Database;
}

/** The first of the homes that has it decides, also when what it has cannot be loaded. */
function requireFrom(name: string, homes: readonly string[]): unknown {
  let last: unknown;
  for (const home of homes) {
    try {
      return createRequire(home)(name);
    } catch (error) {
      last = error;
      if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') break;
    }
  }
  throw last;
}
