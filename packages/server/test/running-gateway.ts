import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { CREDENTIAL, type Ended, RunningProgram, temporaryFolder } from './running-program.ts';

export interface RunningGateway {
  readonly program: RunningProgram;
  readonly url: string;
  readonly admin: string;
  /** A connection of its own, with everything that came back on it so far. */
  open(): Promise<RawConnection>;
  stop(): Promise<Ended>;
}

export interface RawConnection {
  readonly socket: Socket;
  text(): string;
}

/** A gateway of its own on free ports. */
export async function startGateway(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<RunningGateway> {
  const folder = temporaryFolder();
  const program = new RunningProgram(['gateway', ...args], {
    PORT: '0',
    ONCEWARD_ADMIN_PORT: '0',
    ONCEWARD_DATA: folder.path,
    ONCEWARD_LOG_LEVEL: 'warn',
    ...CREDENTIAL,
    ...env,
  });
  const url = await program.ready();
  const [, admin = ''] = await program.printed(/^onceward admin is on (\S+)$/m);
  return {
    program,
    url,
    admin,
    open: () => openConnection(url),
    async stop() {
      const ended = await program.stop();
      folder.remove();
      return ended;
    },
  };
}

async function openConnection(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  const socket = connect({ port: Number(port), host: hostname, noDelay: true });
  socket.on('error', () => {});
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
  });
  await once(socket, 'connect');
  return { socket, text: () => text };
}
