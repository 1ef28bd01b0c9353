import { StoreError } from '../../engine/errors.ts';
import type { CallDeadlines } from '../call-deadlines.ts';
import type { PgClient, PgMessage, PgPool, PgPoolClient } from './pg-driver.ts';

/**
 * Runs `work` between BEGIN and COMMIT on a connection of its own. A commit that comes with a warning, or not in time,
 * is reported as unknown: with a warning PostgreSQL says that it is done, although no standby may have it.
 */
export async function runInTransaction<T>(
  pool: PgPool,
  deadlines: CallDeadlines,
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
    await run('begin isolation level read committed');
    let result: T;
    try {
      result = await work(client);
    } catch (error) {
      healthy = await run('rollback').then(
        () => true,
        () => false,
      );
      throw error;
    }
    warning = null;
    await run('commit');
    if (warning !== null) throw unconfirmed(warning);
    healthy = true;
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
    return await deadlines.bound(
      connecting,
      (cause) => cause,
      () => 'no',
    );
  } catch (error) {
    connecting.then(
      (client) => client.release(),
      () => {},
    );
    throw error;
  }
}

/** Raised when PostgreSQL reports as done what it only did here. */
export function unconfirmed(warning: string): StoreError {
  return new StoreError(
    'ONCE_STORE_UNAVAILABLE',
    `PostgreSQL committed with a warning, so the commit may not survive: ${warning}`,
  );
}
