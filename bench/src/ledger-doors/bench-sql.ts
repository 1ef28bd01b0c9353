import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startPostgres } from '../../../scripts/services/index.ts';

const run = promisify(execFile);
const CLIENTS = 64;

const SCHEMA = `
  CREATE TABLE accounts (id bigint PRIMARY KEY, balance numeric NOT NULL DEFAULT 0);
  CREATE TABLE transactions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key uuid NOT NULL UNIQUE, at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE entries (
    transaction_id bigint NOT NULL, account bigint NOT NULL, amount numeric NOT NULL);
  CREATE INDEX ON entries (account);
`;

/** Accounts are locked in one order, so that no two transactions wait for each other. */
const TRANSACTION = `
\\set a random(1, :accounts)
\\set b 1 + (:a + random(0, :accounts - 2)) % :accounts
\\set low least(:a, :b)
\\set high greatest(:a, :b)
BEGIN;
INSERT INTO transactions (key) VALUES (gen_random_uuid()) RETURNING id \\gset
INSERT INTO entries VALUES (:id, :low, -100), (:id, :high, 100);
UPDATE accounts SET balance = balance - 100 WHERE id = :low;
UPDATE accounts SET balance = balance + 100 WHERE id = :high;
COMMIT;
`;

/** The same double-entry transaction in SQL, durable, by PostgreSQL's own load generator. Transactions a second. */
export async function measureSql(accounts: number, seconds: number): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'onceward-bench-sql-'));
  const server = await startPostgres({
    settings: { synchronous_commit: 'on', fsync: 'on', max_connections: '100' },
  });
  try {
    const script = join(folder, 'transaction.sql');
    await writeFile(script, TRANSACTION);
    const fill = `INSERT INTO accounts SELECT generate_series(1, ${accounts}); ANALYZE;`;
    await run(join(server.programs, 'psql'), [
      server.url,
      '-v',
      'ON_ERROR_STOP=1',
      '-c',
      SCHEMA + fill,
    ]);
    const flags = ['-n', '-M', 'prepared', '-c', String(CLIENTS), '-j', '2', '-T', String(seconds)];
    const args = [...flags, '-D', `accounts=${accounts}`, '-f', script, server.url];
    const { stdout } = await run(join(server.programs, 'pgbench'), args);
    const found = /tps = ([\d.]+)/.exec(stdout)?.[1];
    if (found === undefined) throw new Error(`pgbench did not say how many:\n${stdout}`);
    return Number(found);
  } finally {
    await server.dispose();
    await rm(folder, { recursive: true, force: true });
  }
}
