import { createClient } from '@redis/client';
import { startPostgres, startRedis } from '../../../scripts/services/index.ts';
import type { BenchOptions } from '../benches.ts';
import { type Contender, compareInTurn } from '../http/in-turn.ts';
import { startChild } from '../http/processes.ts';
import type { Report } from '../report.ts';
import { readRedisCpu } from './redis-cpu.ts';

const SERVER = new URL('./server-child.ts', import.meta.url);

/** Requests with a new key each, made by wrk, in turn with the same server bare. */
export async function benchServers(report: Report, options: BenchOptions): Promise<void> {
  const memoryOnly = await startRedis({ appendfsync: 'no' });
  const durable = await startRedis({ appendfsync: 'always' });
  const postgres = await startPostgres({ settings: { fsync: 'on', synchronous_commit: 'on' } });
  const readers = [memoryOnly, durable].map(({ url }) => createClient({ url }));
  for (const reader of readers) await reader.connect();
  const [ofMemory, ofDurable] = readers.map((reader) => ({
    metric: 'µs Redis CPU/request',
    read: () => readRedisCpu(reader),
  }));
  const bare = server('Fastify bare', []);
  const group: readonly Contender[] = [
    bare,
    server('Fastify + two plain SETs (no file)', [memoryOnly.url, 'plain'], ofMemory),
    server('Fastify + @node-idempotency (no file)', [memoryOnly.url, 'peer'], ofMemory),
    server('Fastify + Redis (no file), new key', [memoryOnly.url], ofMemory),
    server('Fastify + Redis (no file), @redis/client', [memoryOnly.url, 'driver'], ofMemory),
    server('Fastify + Redis (always), new key', [durable.url], ofDurable),
    server('Fastify + PostgreSQL (durable), new key', [postgres.url]),
  ];
  try {
    await compareInTurn(report, 'stores', group, 6_000, options, 'wrk');
  } finally {
    for (const reader of readers) reader.destroy();
    for (const one of [memoryOnly, durable, postgres]) await one.dispose();
  }
}

/** `args`: where the store is and, for a yardstick, which. */
function server(name: string, args: readonly string[], meter?: Contender['meter']): Contender {
  const start = () => startChild(SERVER, args);
  return { name, keys: 'new', start, ...(meter && { meter }) };
}
