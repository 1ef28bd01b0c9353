import { mkdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { locate } from './binaries.ts';
import { freePort } from './loopback-port.ts';
import { type ServerProcess, serverProcess } from './server-process.ts';
import { createWorkFolder } from './work-folder.ts';

export interface RedisOptions {
  /** `no` starts it without an append-only file at all. */
  readonly appendfsync?: 'always' | 'everysec' | 'no';
  readonly maxmemory?: string;
  readonly maxmemoryPolicy?: string;
  /** A cluster of one node that holds every slot: enough to have it refuse what crosses slots. */
  readonly cluster?: boolean;
}

export interface RedisServer extends Omit<ServerProcess, 'start'> {
  readonly url: string;
  readonly port: number;
  start(): Promise<void>;
  /** Stops it and removes its data. */
  dispose(): Promise<void>;
}

export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const folder = createWorkFolder('redis', null);
  const port = await freePort();
  const data = join(folder.path, 'data');
  mkdirSync(data);
  const appendfsync = options.appendfsync ?? 'always';
  const args = [
    ...['--port', String(port), '--bind', '127.0.0.1', '--dir', data, '--save', ''],
    ...['--appendonly', appendfsync === 'no' ? 'no' : 'yes', '--appendfsync', appendfsync],
    ...['--maxmemory', options.maxmemory ?? '0'],
    ...['--maxmemory-policy', options.maxmemoryPolicy ?? 'noeviction'],
    ...(options.cluster === true ? ['--cluster-enabled', 'yes'] : []),
  ];
  const server = serverProcess(folder, {
    name: 'redis',
    program: locate('redis-server'),
    args,
    account: null,
    stopSignal: 'SIGTERM',
    ready: () => (options.cluster === true ? clusterIsReady(port) : answers(port)),
  });
  await server.start();
  return Object.assign(server, {
    url: `redis://127.0.0.1:${port}`,
    port,
    async dispose() {
      await server.stop();
      folder.remove();
    },
  });
}

async function answers(port: number): Promise<boolean> {
  return (await ask(port, 'PING')).startsWith('+PONG');
}

/** The slots are given out at the first start; later ones remember them. */
async function clusterIsReady(port: number): Promise<boolean> {
  const info = await ask(port, 'CLUSTER INFO');
  if (info.includes('cluster_slots_assigned:0')) await ask(port, 'CLUSTER ADDSLOTSRANGE 0 16383');
  return info.includes('cluster_state:ok');
}

/** One inline command and the first bytes of its answer; empty when there is none. */
function ask(port: number, command: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const end = (answer: string) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(1_000, () => end(''));
    socket.once('error', () => end(''));
    socket.once('data', (chunk) => end(chunk.toString()));
    socket.once('connect', () => socket.write(`${command}\r\n`));
  });
}
