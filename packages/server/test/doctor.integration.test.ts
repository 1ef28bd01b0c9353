import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openPostgresStore } from 'onceward/postgres';
import { openSqliteStore } from 'onceward/sqlite';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { startEtcd, startPostgres, startRedis } from '../../../scripts/services/index.ts';
import { EXIT } from '../src/cli/exit-code.ts';
import { runCommand, temporaryFolder } from './running-program.ts';

interface Line {
  readonly check: string;
  readonly result: string;
  readonly detail: string;
}

/** What doctor says of a store, whatever it thinks of the rest. */
async function lookAt(...args: string[]): Promise<(check: string) => Line | undefined> {
  const { stdout } = await runCommand(['doctor', '--json', ...args], {});
  const { findings } = JSON.parse(stdout) as { findings: Line[] };
  return (check) => findings.find((line) => line.check === check);
}

it('doctor refuses a data folder that a server could not use', async () => {
  const folder = temporaryFolder();
  const file = join(folder.path, 'file');
  writeFileSync(file, '');
  const found = await lookAt('--data', file);
  expect(found('data folder')).toMatchObject({
    result: 'bad',
    detail: expect.stringContaining('is not a folder'),
  });
  folder.remove();
});

describe('doctor explains a store', () => {
  it('in Redis, and what keeps it from promising more', async () => {
    const server = await startRedis({ appendfsync: 'everysec' });
    const weak = await lookAt('--store', 'redis', '--store-url', server.url);
    expect(weak('store')).toMatchObject({
      result: 'warn',
      detail: expect.stringContaining('redis, best effort'),
    });
    expect(weak('store appendfsync')).toMatchObject({ result: 'warn' });
    expect(weak('next level')?.detail).toContain('appendfsync always');
    await server.dispose();
    const durable = await startRedis({ appendfsync: 'always' });
    const strong = await lookAt('--look-at', durable.url);
    expect(strong('store')?.detail).toContain('at most once');
    expect(strong('next level')?.detail).toContain('failover');
    const { code } = await runCommand(['doctor', '--look-at', durable.url], {});
    expect(code).toBe(EXIT.done.code);
    await durable.dispose();
  });

  it('in PostgreSQL, also before there is a schema', async () => {
    const server = await startPostgres();
    const before = await lookAt('--look-at', server.url);
    expect(before('store')).toMatchObject({ result: 'bad' });
    expect(before('store')?.detail).toContain('schema onceward is missing');
    const pool = new pg.Pool({ connectionString: server.url });
    pool.on('error', () => {});
    await (await openPostgresStore({ pool })).close();
    await pool.end();
    const after = await lookAt('--look-at', server.url);
    expect(after('store')).toMatchObject({ result: 'ok' });
    expect(after('next level')?.detail).toContain('name two standbys');
    await server.dispose();
  });

  it('in SQLite', async () => {
    const folder = temporaryFolder();
    const path = join(folder.path, 'operations.db');
    expect((await lookAt('--look-at', `sqlite:${path}`))('store')).toMatchObject({
      result: 'warn',
    });
    await (await openSqliteStore({ path, driver: 'libsql' })).close();
    const found = await lookAt('--look-at', `sqlite:${path}`);
    expect(found('store synchronous')).toMatchObject({
      result: 'ok',
      detail: expect.stringContaining('full'),
    });
    expect(found('next level')?.detail).toContain('standbys');
    folder.remove();
  });

  it('in etcd', async () => {
    const cluster = await startEtcd(1);
    const members = cluster.endpoints.map((url) => url.replace('http://', '')).join();
    const found = await lookAt('--look-at', `etcd://${members}`);
    expect(found('store')?.detail).toContain('etcd, at most once');
    expect(found('next level')?.detail).toContain('run three');
    await cluster.dispose();
  });

  it('of its own, and refuses what it does not know', async () => {
    expect((await lookAt('--store', 'memory'))('store')).toMatchObject({ result: 'warn' });
    expect((await lookAt('--store', 'wal'))('store')?.detail).toContain('power cut');
    const { code, stdout } = await runCommand(['doctor', '--look-at', 'mongodb://here'], {});
    expect(code).toBe(EXIT.unwell.code);
    expect(stdout).toMatch(/bad +store +a store is named by/);
  });
});
