import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openPostgresStore } from 'onceward/postgres';
import { Pool } from 'pg';
import { type PostgresServer, startPostgres } from '../../../scripts/services/index.ts';
import type { BenchOptions } from '../benches.ts';
import { measureCycles, SAMPLE } from '../engine/cycles.ts';
import { median, type Report } from '../report.ts';
import { storeTarget } from './store-target.ts';

const run = promisify(execFile);
const IN_FLIGHT = [64, 256];
const CLIENTS = 64;
const PGBENCH = `pgbench, the same two statements, ${CLIENTS} clients`;

/** The table of the store, for statements without it. */
const SCHEMA = `
  create table plain (
    hash uuid primary key, scope text not null, key text not null, revision bigint not null,
    state smallint not null, due_at bigint, bytes bytea not null) with (fillfactor = 40);
  alter table plain alter column bytes set storage external;
  create sequence plain_revisions;
`;

/** A claim against nothing and a settle against the claim's revision, each a commit of its own. */
const CYCLE = `
\\set key random(1, 9000000000000000000)
insert into plain values (gen_random_uuid(), :scope, :key, nextval('plain_revisions'), 1, :due, decode(:claim, 'hex'))
  on conflict (hash) do nothing returning hash, revision \\gset
update plain set revision = nextval('plain_revisions'), state = 2, due_at = :due, bytes = decode(:settled, 'hex')
  where hash = :hash and revision = :revision returning revision as settled_at \\gset
`;

/** Reserve + commit on a durable server, in turn with PostgreSQL's own load generator. */
export async function benchPostgres(report: Report, { quick }: BenchOptions): Promise<void> {
  const rounds = quick ? 1 : 3;
  const seconds = quick ? 2 : 4;
  const server = await startPostgres({
    settings: { fsync: 'on', synchronous_commit: 'on', max_connections: '100' },
  });
  const folder = await mkdtemp(join(tmpdir(), 'onceward-bench-'));
  const script = join(folder, 'cycle.sql');
  await writeFile(script, CYCLE);
  await run(join(server.programs, 'psql'), [server.url, '-v', 'ON_ERROR_STOP=1', '-c', SCHEMA]);
  const pool = new Pool({ connectionString: server.url });
  // An idle connection may get the server's shutdown before the pool's end.
  pool.on('error', () => {});
  const store = await openPostgresStore({ pool, timeoutMs: 10_000 });
  const target = storeTarget('PostgreSQL store', store);
  const plain: number[] = [];
  const ours = new Map<number, { perSecond: number; cpuMicros: number }[]>();
  try {
    for (let round = 0; round < rounds; round += 1) {
      plain.push(await runPgbench(server, script, seconds));
      for (const inFlight of IN_FLIGHT) {
        await measureCycles(target, inFlight, 500);
        const sample = await measureCycles(target, inFlight, seconds * 1_000);
        ours.set(inFlight, [...(ours.get(inFlight) ?? []), sample]);
      }
    }
  } finally {
    await target.close();
    await pool.end();
    await server.dispose();
    await rm(folder, { recursive: true, force: true });
  }
  const bench = 'stores';
  report({ bench, case: PGBENCH, metric: 'cycles/s', value: median(plain) });
  for (const [inFlight, samples] of ours) {
    const name = `${target.name}, ${inFlight} in flight`;
    const value = median(samples.map(({ perSecond }) => perSecond));
    const ratio = value / median(plain);
    report({ bench, case: name, metric: 'cycles/s', value, against: PGBENCH, ratio });
    const cpu = median(samples.map(({ cpuMicros }) => cpuMicros));
    report({ bench, case: name, metric: 'µs CPU/cycle', value: cpu });
  }
}

async function runPgbench(
  server: PostgresServer,
  script: string,
  seconds: number,
): Promise<number> {
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
  const values = {
    scope: 'tenant-42/POST/v1/orders',
    due: String(Date.UTC(2030, 0, 1)),
    claim: hex(SAMPLE.claim),
    settled: hex(SAMPLE.commit),
  };
  const defined = Object.entries(values).flatMap(([name, value]) => ['-D', `${name}=${value}`]);
  const flags = ['-n', '-M', 'prepared', '-c', String(CLIENTS), '-j', '2', '-T', String(seconds)];
  const args = [...flags, ...defined, '-f', script, server.url];
  const { stdout } = await run(join(server.programs, 'pgbench'), args);
  const found = /tps = ([\d.]+)/.exec(stdout)?.[1];
  if (found === undefined) throw new Error(`pgbench did not say how many:\n${stdout}`);
  return Number(found);
}
