import { StoreError } from '../../engine/errors.ts';
import { refuseUnknown } from '../../engine/known-options.ts';
import { type DurationMs, SECOND } from '../../engine/units.ts';
import { CallDeadlines } from '../call-deadlines.ts';
import { type Durability, requireDurability } from '../durability.ts';
import { invalidConfig } from '../invalid-config.ts';
import { type DurabilityProof, proveDurability } from './durability-proof.ts';
import type { PgPool, PgPoolClient } from './pg-driver.ts';
import { explain } from './pg-session.ts';
import { PostgresStore } from './postgres-store.ts';
import { checkSchema, migrateSchema } from './schema.ts';

export type { Durability, StoreFinding } from '../durability.ts';
export type {
  PgClient,
  PgMessage,
  PgPool,
  PgPoolClient,
  PgResult,
  PgStatement,
} from './pg-driver.ts';
export type { PostgresStore } from './postgres-store.ts';

export interface PostgresStoreOptions {
  /** A pool of `pg`. The store keeps up to five of its connections. */
  readonly pool: PgPool;
  /** How long a call may take. */
  readonly timeoutMs?: DurationMs;
  /**
   * How long the work of `store.transact` may take in all, and each call within a transaction of the caller's own;
   * waiting for other transactions included. Half a minute by default.
   */
  readonly transactionTimeoutMs?: DurationMs;
  /** How many connections may write: two by default, and the second only under load. More rarely help. */
  readonly connections?: number;
  /** Wakes waiters in other processes by LISTEN, over one connection. Off behind a pooler in transaction mode. */
  readonly notifications?: boolean;
  /** Creates and updates the schema `onceward`. Off: it is only checked. */
  readonly migrate?: boolean;
  /** Refuses to open unless the server's settings prove at least this. */
  readonly durability?: Durability;
}

const KNOWN = {
  pool: true,
  timeoutMs: true,
  transactionTimeoutMs: true,
  connections: true,
  notifications: true,
  migrate: true,
  durability: true,
} satisfies Record<keyof PostgresStoreOptions, true>;

/** Starting may wait for another process that migrates, or for a barrier commit. */
/** Node's timers go no further. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const START_TIMEOUT_MS = 30 * SECOND;

/**
 * Records in PostgreSQL 14 or later, in a schema of their own. Claims and settles that come together are written by
 * one statement and one commit.
 *
 * ```ts
 * const store = await openPostgresStore({ pool: new Pool({ connectionString }) });
 * ```
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<PostgresStore> {
  refuseUnknown('the postgres store', options, KNOWN);
  const timeoutMs = options.timeoutMs ?? SECOND;
  const connections = options.connections ?? 2;
  if (!(timeoutMs > 0)) throw invalidConfig(`timeoutMs is ${timeoutMs}; it must be above 0`);
  const transactionTimeoutMs = options.transactionTimeoutMs ?? 30 * SECOND;
  if (!(transactionTimeoutMs > 0 && transactionTimeoutMs <= LONGEST_TIMER_MS)) {
    throw invalidConfig(
      `transactionTimeoutMs is ${transactionTimeoutMs}; it must be above 0 and at most ${LONGEST_TIMER_MS}`,
    );
  }
  if (!Number.isInteger(connections) || connections < 1 || connections > 16) {
    throw invalidConfig(`connections is ${connections}; it must be a whole number from 1 to 16`);
  }
  const deadlines = new CallDeadlines(START_TIMEOUT_MS);
  const proof = await deadlines.bound(prepareServer(options), (cause) =>
    cause instanceof StoreError ? cause : explain(cause),
  );
  requireDurability('postgres', options.durability, proof.durability, proof.findings);
  return new PostgresStore({
    pool: options.pool,
    timeoutMs,
    transactionTimeoutMs,
    connections,
    notifications: options.notifications !== false,
    proof,
  });
}

async function prepareServer(options: PostgresStoreOptions): Promise<DurabilityProof> {
  const client = await options.pool.connect();
  // Without a listener, a connection that breaks would end the process.
  const onError = () => {};
  client.on('error', onError);
  try {
    await refuseStandby(client);
    if (options.migrate !== false) await migrateSchema(client);
    await checkSchema(client);
    const proof = await proveDurability(client);
    client.removeListener('error', onError);
    client.release();
    return proof;
  } catch (error) {
    client.release(true);
    throw error;
  }
}

/** A standby lags behind and forgets nothing it should: no decision can be made on it. */
async function refuseStandby(client: PgPoolClient): Promise<void> {
  const { rows } = await client.query('select pg_is_in_recovery() as standby');
  if ((rows[0] as { standby: boolean }).standby) {
    throw invalidConfig('the pool leads to a standby; the store must be given the primary');
  }
}
