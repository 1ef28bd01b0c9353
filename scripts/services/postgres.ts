import { execFileSync } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Account, postgresAccount } from './account.ts';
import { locate } from './binaries.ts';
import { freePort } from './loopback-port.ts';
import { type ServerProcess, serverProcess } from './server-process.ts';
import { createWorkFolder, type WorkFolder } from './work-folder.ts';

export interface PostgresOptions {
  /** Lines of postgresql.conf, such as `{ synchronous_commit: 'off' }`. */
  readonly settings?: Readonly<Record<string, string>>;
}

export interface PostgresServer extends ServerProcess {
  readonly url: string;
  readonly port: number;
  readonly dataFolder: string;
  /** The folder of psql, pgbench and their like. */
  readonly programs: string;
  dispose(): Promise<void>;
}

export interface PostgresCluster {
  readonly primary: PostgresServer;
  /** Any one of them acknowledges a commit. */
  readonly standbys: readonly [PostgresServer, PostgresServer];
  dispose(): Promise<void>;
}

export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  // Installing PostgreSQL is what creates the account.
  locate('initdb');
  const account = postgresAccount();
  const folder = createWorkFolder('postgres', account);
  const port = await freePort();
  const data = join(folder.path, 'data');
  const initdb = ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync'];
  run(locate('initdb'), [...initdb, '--locale', 'C.UTF-8'], folder, account);
  configure(data, { ...baseSettings(folder, port), ...options.settings });
  const server = postgresServer('postgres', folder, data, port, account);
  await server.start();
  return server;
}

/** A primary whose commits wait for one of two standbys (`ANY 1`). */
export async function startPostgresCluster(): Promise<PostgresCluster> {
  const primary = await startPostgres({ settings: { wal_level: 'replica', max_wal_senders: '8' } });
  const standbys = [
    await startStandby(primary, 'standby1'),
    await startStandby(primary, 'standby2'),
  ] as const;
  // Only now, because with names and no standbys every commit would wait.
  configure(primary.dataFolder, { synchronous_standby_names: `'ANY 1 (standby1, standby2)'` });
  process.kill(primary.pid, 'SIGHUP');
  return {
    primary,
    standbys,
    async dispose() {
      await Promise.all([...standbys, primary].map((server) => server.dispose()));
    },
  };
}

async function startStandby(primary: PostgresServer, name: string): Promise<PostgresServer> {
  const account = postgresAccount();
  const folder = createWorkFolder('standby', account);
  const port = await freePort();
  const data = join(folder.path, 'data');
  const source = `host=127.0.0.1 port=${primary.port} user=postgres application_name=${name}`;
  const backup = ['-D', data, '-d', source, '-R', '-X', 'stream', '-c', 'fast', '--no-sync'];
  run(locate('pg_basebackup'), backup, folder, account);
  configure(data, baseSettings(folder, port));
  const server = postgresServer(name, folder, data, port, account);
  await server.start();
  return server;
}

function baseSettings(folder: WorkFolder, port: number): Record<string, string> {
  return {
    port: String(port),
    listen_addresses: `'127.0.0.1'`,
    unix_socket_directories: `'${folder.path}'`,
    shared_buffers: `'128MB'`,
    max_connections: '60',
    log_min_messages: 'warning',
    // After a crash, one call for the file system instead of one for each of thousands of files.
    recovery_init_sync_method: 'syncfs',
  };
}

function configure(data: string, settings: Readonly<Record<string, string>>): void {
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`);
  appendFileSync(join(data, 'postgresql.conf'), lines.join(''));
}

function postgresServer(
  name: string,
  folder: WorkFolder,
  data: string,
  port: number,
  account: Account | null,
): PostgresServer {
  const program = locate('postgres');
  const isReady = locate('pg_isready');
  const server = serverProcess(folder, {
    name,
    program,
    args: ['-D', data],
    account,
    // A fast shutdown: open sessions are ended, nothing committed is lost.
    stopSignal: 'SIGINT',
    ready: async () => succeeds(isReady, ['-q', '-h', '127.0.0.1', '-p', String(port)]),
  });
  return Object.assign(server, {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    dataFolder: data,
    programs: dirname(program),
    async dispose() {
      await server.stop();
      folder.remove();
    },
  });
}

function run(
  program: string,
  args: readonly string[],
  folder: WorkFolder,
  account: Account | null,
): void {
  execFileSync(program, args, { cwd: folder.path, stdio: 'pipe', ...(account ?? {}) });
}

function succeeds(program: string, args: readonly string[]): boolean {
  try {
    execFileSync(program, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
