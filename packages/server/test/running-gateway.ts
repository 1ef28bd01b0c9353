import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { CREDENTIAL, type Ended, RunningProgram, temporaryFolder } from './running-program.ts';

export interface RunningGateway {
  readonly program: RunningProgram;
  readonly url: string;
  readonly admin: string;
  /** A connection of its own, with everything that came back on it so far. */
  open(): Promise<RawConnection>;
  /** Sends bytes as they are and gives one answer of declared length, or what came before the connection ended. */
  ask(bytes: string): Promise<{ readonly status: number; readonly text: string }>;
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
    ask: async (bytes) => ask(await openConnection(url), bytes),
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

async function ask({ socket, text }: RawConnection, bytes: string) {
  socket.write(bytes);
  for (let tries = 0; tries < 1_000 && !socket.destroyed && !isWhole(text()); tries += 1) {
    await sleep(20);
  }
  socket.destroy();
  return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(text())?.[1]), text: text() };
}

function isWhole(text: string): boolean {
  if (text.startsWith('HTTP/1.1 101')) return true;
  const end = text.indexOf('\r\n\r\n');
  const length = /^content-length: (\d+)\r$/im.exec(text.slice(0, end + 2))?.[1];
  return end !== -1 && length !== undefined && text.length >= end + 4 + Number(length);
}
