import { StoreError } from '../../engine/errors.ts';
import type { CallDeadlines } from '../call-deadlines.ts';
import { guardedClient } from './guarded-client.ts';
import type { PgClient, PgMessage, PgPool, PgPoolClient } from './pg-driver.ts';

export interface Transactions {
  readonly pool: PgPool;
  readonly deadlines: CallDeadlines;
  /** Told when a commit was sent and it is not known whether it was carried out. */
  onDoubt(): void;
}

/**
 * Runs `work` between BEGIN and COMMIT on a connection of its own. A commit that comes with a warning, or not in time,
 * is reported as unknown: with a warning PostgreSQL says that it is done, although no standby may have it.
 */
export async function runInTransaction<T>(
  { pool, deadlines, onDoubt }: Transactions,
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
      result = await work(guardedClient(client));
    } catch (error) {
      healthy = await run('rollback').then(
        () => true,
        () => false,
      );
      throw error;
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
      throw error;
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
