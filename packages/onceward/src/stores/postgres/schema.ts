import { StoreError } from '../../engine/errors.ts';
import type { PgClient } from './pg-driver.ts';
import { RECORDS } from './records.sql.ts';
import { SWAP_BATCH } from './swap-batch.sql.ts';

/** One entry a version. An entry that was released never changes. */
const MIGRATIONS: readonly string[] = [RECORDS + SWAP_BATCH];

/** The columns of the records table, as `information_schema` lists them. */
const RECORD_COLUMNS = [
  'hash uuid',
  'scope text',
  'key text',
  'revision bigint',
  'state smallint',
  'due_at bigint',
  'bytes bytea',
] as const;

/** "onceward" as a number, near enough: no other program should be waiting for this advisory lock. */
const MIGRATION_LOCK = 7_882_699_365_473;

/** Brings the schema to this version. Processes that start together take turns. */
export async function migrateSchema(client: PgClient): Promise<void> {
  await client.query('begin');
  try {
    await client.query('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
    await client.query('create schema if not exists onceward');
    await client.query(
      `create table if not exists onceward.migrations (
         version int primary key, applied_at timestamptz not null default now())`,
    );
    const applied = await readVersion(client);
    for (let version = applied + 1; version <= MIGRATIONS.length; version += 1) {
      await client.query(MIGRATIONS[version - 1] as string);
      await client.query('insert into onceward.migrations (version) values ($1)', [version]);
    }
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

/** Refuses a schema of another version, or a table that something else has made or changed. */
export async function checkSchema(client: PgClient): Promise<void> {
  const version = await readVersion(client).catch((cause: unknown) => {
    throw wrong('the schema onceward is missing or not readable; open the store with migrate on', {
      cause,
    });
  });
  if (version !== MIGRATIONS.length) {
    const advice =
      version < MIGRATIONS.length ? 'open the store with migrate on' : 'update onceward';
    throw wrong(
      `the schema has version ${version}, this code wants ${MIGRATIONS.length}; ${advice}`,
    );
  }
  const { rows } = await client.query(
    `select column_name || ' ' || data_type as definition from information_schema.columns
     where table_schema = 'onceward' and table_name = 'records'`,
  );
  const found = rows.map((row) => (row as { definition: string }).definition);
  const missing = RECORD_COLUMNS.filter((column) => !found.includes(column));
  if (missing.length > 0 || found.length !== RECORD_COLUMNS.length) {
    throw wrong(
      `onceward.records does not have the columns it should (${RECORD_COLUMNS.join(', ')}) but ${found.join(', ')}`,
    );
  }
}

async function readVersion(client: PgClient): Promise<number> {
  const { rows } = await client.query(
    'select coalesce(max(version), 0)::int as version from onceward.migrations',
  );
  return (rows[0] as { version: number }).version;
}

function wrong(message: string, details: { cause?: unknown } = {}): StoreError {
  return new StoreError('ONCE_STORE_VERSION', message, { ...details, applied: 'no' });
}
