import { OncewardError, StoreError } from '../../engine/errors.ts';
import type { DurationMs } from '../../engine/units.ts';
import type { CallDeadlines } from '../call-deadlines.ts';
import { guardedClient } from './guarded-client.ts';
import type { PgClient, PgMessage, PgPool, PgPoolClient } from './pg-driver.ts';

export interface Transactions {
  readonly pool: PgPool;
  /** For the statements that begin and end a transaction. */
  readonly deadlines: CallDeadlines;
  /** For what comes in between, all of it. */
  readonly timeoutMs: DurationMs;
  /** Called when a commit was sent and its outcome is unknown. */
  onDoubt(): void;
}

/**
 * Runs `work` between BEGIN and COMMIT on a connection of its own, for `timeoutMs` at most: then the connection is
 * ended, and PostgreSQL rolls back. A commit that comes with a warning, or not in time, is reported as unknown: with a
 * warning PostgreSQL says that it is done, although no standby may have it.
 */
export async function runInTransaction<T>(
  { pool, deadlines, timeoutMs, onDoubt }: Transactions,
  work: (client: PgClient) => Promise<T>,
): Promise<T> {
  const client = await checkOut(pool, deadlines);
  let warning: string | null = null;
  const onNotice = (notice: PgMessage) => {
    if (notice.severity === 'WARNING') warning = notice.message ?? 'a warning';
  };
  const onError = () => {};
  client.on('notice', onNotice);
  // Without a listener, a connection that breaks between two statements would end the process.
  client.on('error', onError);
  const run = (statement: string) => deadlines.bound(client.query(statement), (cause) => cause);
  let healthy = false;
  try {
    await run('begin isolation level read committed read write').catch((cause: unknown) => {
      throw notBegun(cause);
    });
    let result: T;
    try {
      result = await inTime(work(guardedClient(client)), timeoutMs);
    } catch (error) {
      if (isRolledBack(error)) throw error;
      healthy = await run('rollback').then(
        () => true,
        () => false,
      );
      if (healthy || !isConnectionLoss(error)) throw error;
      const { message } = error as Error;
      throw rolledBack(`the connection was lost before the commit: ${message}`, error);
    }
    warning = null;
    let command: string | undefined;
    try {
      ({ command } = await run('commit'));
      if (warning !== null) throw unconfirmed(warning);
    } catch (error) {
      if (isRefusal(error)) {
        healthy = true;
        throw rolledBack(`PostgreSQL refused to commit: ${(error as Error).message}`, error);
      }
      onDoubt();
      throw error instanceof StoreError ? error : commitLost(error);
    }
    healthy = true;
    if (command === 'ROLLBACK') throw failedBefore();
    return result;
  } finally {
    client.removeListener('notice', onNotice);
    if (healthy) client.removeListener('error', onError);
    client.release(!healthy);
  }
}

/** What the work does later, on a connection that has ended, is ignored. */
function inTime<T>(working: Promise<T>, ms: DurationMs): Promise<T> {
  return new Promise((resolve, reject) => {
    const message = `the transaction took longer than transactionTimeoutMs, ${ms} ms, and was rolled back`;
    const timer = setTimeout(() => reject(rolledBack(message, undefined)), ms);
    working.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** A connection that comes too late goes straight back. */
async function checkOut(pool: PgPool, deadlines: CallDeadlines): Promise<PgPoolClient> {
  const connecting = pool.connect();
  try {
    return await deadlines.bound(connecting, notBegun, () => 'no');
  } catch (error) {
    connecting.then(
      (client) => client.release(),
      () => {},
    );
    throw error;
  }
}

/** No connection, or no BEGIN on it: nothing has happened. */
function notBegun(cause: unknown): StoreError {
  if (cause instanceof StoreError && cause.applied === 'no') return cause;
  return new StoreError(
    'ONCE_STORE_UNAVAILABLE',
    `PostgreSQL could not begin a transaction: ${(cause as Error).message}`,
    { cause, applied: 'no' },
  );
}

/** PostgreSQL ends a transaction in which a statement has failed by ROLLBACK, and calls that a success. */
export function failedBefore(): StoreError {
  return rolledBack(
    'the transaction was rolled back: one of its statements had failed, and its error was caught; let it through, or use a savepoint',
    undefined,
  );
}

function isRolledBack(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'ONCE_ROLLED_BACK';
}

/** SQLSTATE classes 08 and 57P, the codes of a socket, and what `pg` says without a code. */
const LOST_CODE = /^(08...|57P..|ECONN[A-Z]+|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/;
const LOST_MESSAGE = /connection (terminated|ended|error)|not queryable/i;

function isConnectionLoss(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof OncewardError) return false;
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? LOST_CODE.test(code) : LOST_MESSAGE.test(error.message);
}

function commitLost(cause: unknown): StoreError {
  const message = `whether PostgreSQL committed is not known: ${(cause as Error).message}`;
  return new StoreError('ONCE_STORE_UNAVAILABLE', message, { cause });
}

function rolledBack(message: string, cause: unknown): StoreError {
  return new StoreError('ONCE_ROLLED_BACK', message, { cause, applied: 'no' });
}

/**
 * PostgreSQL has answered the COMMIT, and the answer is no: a deferred constraint (class 23), a conflict that it ended
 * (40, but for 40003, which it does not know itself), or a trigger's own error (P0). Anything else may be a lost reply.
 */
function isRefusal(error: unknown): boolean {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  return (
    severity === 'ERROR' && typeof code === 'string' && /^(23|40|P0)/.test(code) && code !== '40003'
  );
}

/** Raised when PostgreSQL reports as done what it only did here. */
export function unconfirmed(warning: string): StoreError {
  return new StoreError(
    'ONCE_STORE_UNAVAILABLE',
    `PostgreSQL committed with a warning, so the commit may not survive: ${warning}`,
  );
}
