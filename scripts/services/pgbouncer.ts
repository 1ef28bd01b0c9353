import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { postgresAccount } from './account.ts';
import { locate } from './binaries.ts';
import { accepts, freePort } from './loopback-port.ts';
import type { PostgresServer } from './postgres.ts';
import { type ServerProcess, serverProcess } from './server-process.ts';
import { createWorkFolder } from './work-folder.ts';

export interface PgBouncer extends ServerProcess {
  readonly url: string;
  dispose(): Promise<void>;
}

/** A pooler in transaction mode: every transaction may run on another connection of the server. */
export async function startPgBouncer(server: PostgresServer): Promise<PgBouncer> {
  const program = locate('pgbouncer');
  // It refuses to run as root, too.
  const account = postgresAccount();
  const folder = createWorkFolder('pgbouncer', account);
  const port = await freePort();
  const settings = join(folder.path, 'pgbouncer.ini');
  writeFileSync(
    settings,
    [
      '[databases]',
      // With auth_type any, everyone becomes this user.
      `* = host=127.0.0.1 port=${server.port} user=postgres`,
      '[pgbouncer]',
      'listen_addr = 127.0.0.1',
      `listen_port = ${port}`,
      'unix_socket_dir =',
      'auth_type = any',
      'pool_mode = transaction',
      'default_pool_size = 4',
      'server_round_robin = 1',
      'ignore_startup_parameters = extra_float_digits',
      '',
    ].join('\n'),
  );
  const bouncer = serverProcess(folder, {
    name: 'pgbouncer',
    program,
    args: [settings],
    account,
    stopSignal: 'SIGINT',
    ready: () => accepts(port),
  });
  await bouncer.start();
  return Object.assign(bouncer, {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    async dispose() {
      await bouncer.kill().catch(() => {});
      folder.remove();
    },
  });
}
