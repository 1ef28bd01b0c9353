import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../engine/errors.ts';
import type { Transact } from '../../engine/transaction.ts';
import { type DurationMs, SECOND } from '../../engine/units.ts';
import { guardedDatabase } from './guarded-database.ts';
import type { SqliteDatabase } from './sqlite-driver.ts';
import { isBusy } from './sqlite-file.ts';

/**
 * Runs transactions on one connection, one after the other: give this to `executeWithin`. Nothing else may use the
 * connection meanwhile, or it would become part of someone else's transaction. What the work gets refuses statements
 * that would end the transaction.
 */
export function transactionsOn(
  database: SqliteDatabase,
  timeoutMs: DurationMs = 5 * SECOND,
): Transact<SqliteDatabase> {
  const guarded = guardedDatabase(database);
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(() => runInTransaction(database, timeoutMs, () => work(guarded)));
    last = turn.catch(() => {});
    return turn;
  };
}

async function runInTransaction<T>(
  database: SqliteDatabase,
  timeoutMs: DurationMs,
  work: () => Promise<T>,
): Promise<T> {
  await begin(database, timeoutMs);
  let result: T;
  try {
    result = await work();
  } catch (error) {
    database.exec('rollback');
    throw error;
  }
  database.exec('commit');
  return result;
}

async function begin(database: SqliteDatabase, timeoutMs: DurationMs): Promise<void> {
  const giveUpAt = performance.now() + timeoutMs;
  for (;;) {
    try {
      database.exec('begin immediate');
      return;
    } catch (cause) {
      if (!isBusy(cause)) throw notBegun(cause);
      if (performance.now() >= giveUpAt) {
        throw new StoreError(
          'ONCE_STORE_UNAVAILABLE',
          `another connection has been writing to the file for ${timeoutMs} ms`,
          { cause, applied: 'no' },
        );
      }
      await sleep(1 + Math.random() * 3);
    }
  }
}

function notBegun(cause: unknown): StoreError {
  return new StoreError(
    'ONCE_STORE_UNAVAILABLE',
    `SQLite could not begin a transaction: ${(cause as Error).message}`,
    { cause, applied: 'no' },
  );
}
