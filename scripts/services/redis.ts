import { mkdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { locate } from './binaries.ts';
import { freePort } from './loopback-port.ts';
import { type ServerProcess, serverProcess } from './server-process.ts';
import { createWorkFolder } from './work-folder.ts';

export interface RedisOptions {
  /** `no` starts it without an append-only file at all. */
  readonly appendfsync?: 'always' | 'everysec' | 'no';
  readonly maxmemory?: string;
  readonly maxmemoryPolicy?: string;
  /** Valkey is started with the same words. */
  readonly program?: 'redis-server' | 'valkey-server';
  /** A cluster of one node that holds every slot: enough to have it refuse what crosses slots. */
  readonly cluster?: boolean;
  /** Speaks TLS at a port of its own as well, with this certificate and key in PEM files. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

export interface RedisServer extends Omit<ServerProcess, 'start'> {
  readonly url: string;
  readonly port: number;
  readonly tlsPort: number | null;
  /** Where nodes of a cluster talk to each other. */
  readonly busPort: number | null;
  start(): Promise<void>;
  /** Stops it and removes its data. */
  dispose(): Promise<void>;
}

export interface RedisCluster {
  /** Each holds a third of the slots. */
  readonly nodes: readonly RedisServer[];
  /** Makes a copy of the first node, which takes its place should it fail. */
  addReplica(): Promise<RedisServer>;
  dispose(): Promise<void>;
}

/** A real cluster of three masters. */
export async function startRedisCluster(
  options: Pick<RedisOptions, 'appendfsync'> = {},
): Promise<RedisCluster> {
  const nodes: RedisServer[] = [];
  for (let at = 0; at < 3; at += 1) nodes.push(await startNode(options, 'several'));
  const [first, ...others] = nodes as [RedisServer, ...RedisServer[]];
  const ends = [-1, 5_460, 10_922, 16_383];
  for (const [at, { port }] of nodes.entries()) {
    await ask(port, `CLUSTER ADDSLOTSRANGE ${(ends[at] ?? 0) + 1} ${ends[at + 1]}`);
  }
  for (const { port, busPort } of others) {
    await ask(first.port, `CLUSTER MEET 127.0.0.1 ${port} ${busPort}`);
  }
  for (const { port } of nodes) {
    await untilTold(port, 'CLUSTER INFO', /cluster_state:ok.*cluster_known_nodes:3/s);
  }
  const replicas: RedisServer[] = [];
  return {
    nodes,
    async addReplica() {
      const replica = await startNode(options, 'several');
      replicas.push(replica);
      await ask(first.port, `CLUSTER MEET 127.0.0.1 ${replica.port} ${replica.busPort}`);
      const id = (await ask(first.port, 'CLUSTER MYID')).split('\r\n')[1] ?? '';
      await untilTold(replica.port, 'CLUSTER NODES', new RegExp(`${id}.*connected`));
      await ask(replica.port, `CLUSTER REPLICATE ${id}`);
      await untilTold(replica.port, 'INFO replication', /master_link_status:up/);
      return replica;
    },
    async dispose() {
      await Promise.all([...nodes, ...replicas].map((node) => node.dispose()));
    },
  };
}

const JOIN_LIMIT_MS = 60_000;

async function untilTold(port: number, question: string, answer: RegExp): Promise<void> {
  const limit = performance.now() + JOIN_LIMIT_MS;
  while (!answer.test(await ask(port, question))) {
    if (performance.now() > limit) throw new Error(`${question} never says ${answer.source}`);
    await sleep(50);
  }
}

export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  return startNode(options, options.cluster === true ? 'one' : 'none');
}

/** `several`: its slots are given out by the caller. */
async function startNode(
  options: RedisOptions,
  cluster: 'none' | 'one' | 'several',
): Promise<RedisServer> {
  const folder = createWorkFolder('redis', null);
  const port = await freePort();
  const busPort = cluster === 'none' ? null : await freePort();
  const tlsPort = options.tls === undefined ? null : await freePort();
  const data = join(folder.path, 'data');
  mkdirSync(data);
  const appendfsync = options.appendfsync ?? 'always';
  const args = [
    ...['--port', String(port), '--bind', '127.0.0.1', '--dir', data, '--save', ''],
    ...['--appendonly', appendfsync === 'no' ? 'no' : 'yes', '--appendfsync', appendfsync],
    ...['--maxmemory', options.maxmemory ?? '0'],
    ...['--maxmemory-policy', options.maxmemoryPolicy ?? 'noeviction'],
    ...(busPort === null ? [] : ['--cluster-enabled', 'yes', '--cluster-port', String(busPort)]),
    ...(options.tls === undefined ? [] : tlsArguments(String(tlsPort), options.tls)),
    // A dead node is noticed within seconds, yet a busy machine is not taken for a dead one.
    ...(busPort === null ? [] : ['--cluster-node-timeout', '5000']),
  ];
  const server = serverProcess(folder, {
    name: 'redis',
    program: locate(options.program ?? 'redis-server'),
    args,
    account: null,
    stopSignal: 'SIGTERM',
    ready: () => (cluster === 'one' ? clusterIsReady(port) : answers(port)),
  });
  await server.start();
  return Object.assign(server, {
    url: `redis://127.0.0.1:${port}`,
    port,
    tlsPort,
    busPort,
    async dispose() {
      await server.stop();
      folder.remove();
    },
  });
}

function tlsArguments(port: string, { cert, key }: NonNullable<RedisOptions['tls']>): string[] {
  const files = ['--tls-cert-file', cert, '--tls-key-file', key];
  return ['--tls-port', port, ...files, '--tls-auth-clients', 'no'];
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
