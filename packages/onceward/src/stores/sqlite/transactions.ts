import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../engine/errors.ts';
import type { Transact } from '../../engine/run/transaction.ts';
import { type DurationMs, SECOND } from '../../engine/units.ts';
import { guardedDatabase } from './guarded-database.ts';
import type { SqliteDatabase } from './sqlite-driver.ts';
import { isBusy } from './sqlite-file.ts';
import { takeTurns } from './turns.ts';

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
  const inTurn = takeTurns({ now: () => performance.now(), sleep });
  return (work) => inTurn(() => runInTransaction(database, timeoutMs, () => work(guarded)));
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
    rollBack(database);
    throw error;
  }
  try {
    database.exec('commit');
  } catch (cause) {
    rollBack(database);
    throw notCommitted(cause as Error);
  }
  return result;
}

/** SQLite may have done so by itself, on a full disk for instance, and then there is nothing to roll back. */
function rollBack(database: SqliteDatabase): void {
  try {
    database.exec('rollback');
  } catch {
    // The next caller finds out whether the connection is free.
  }
}

/** A constraint that is checked at the end, or a lock, leaves nothing behind. After a failed write it is unknown. */
function notCommitted(cause: Error): StoreError {
  const isRefusal = /constraint/i.test(cause.message) || isBusy(cause);
  return isRefusal
    ? new StoreError('ONCE_ROLLED_BACK', `SQLite refused to commit: ${cause.message}`, {
        cause,
        applied: 'no',
      })
    : new StoreError(
        'ONCE_STORE_UNAVAILABLE',
        `whether SQLite committed is not known: ${cause.message}`,
        { cause },
      );
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
