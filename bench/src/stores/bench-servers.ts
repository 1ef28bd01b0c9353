import { createClient } from '@redis/client';
import { startPostgres, startRedis } from '../../../scripts/services/index.ts';
import type { BenchOptions } from '../benches.ts';
import { type Contender, measureInTurn, type Share } from '../http/in-turn.ts';
import { startChild } from '../http/processes.ts';
import { median, type Report } from '../report.ts';
import { readRedisCpu } from './redis-cpu.ts';

const SERVER = new URL('./server-child.ts', import.meta.url);

/** Requests with a new key each, the load in another process, in turn with the same server bare. */
export async function benchServers(report: Report, { quick }: BenchOptions): Promise<void> {
  const rounds = quick ? 1 : 3;
  const ms = quick ? 1_500 : 3_000;
  const memoryOnly = await startRedis({ appendfsync: 'no' });
  const durable = await startRedis({ appendfsync: 'always' });
  const postgres = await startPostgres({ settings: { fsync: 'on', synchronous_commit: 'on' } });
  const readers = [memoryOnly, durable].map(({ url }) => createClient({ url }));
  for (const reader of readers) await reader.connect();
  const [ofMemory, ofDurable] = readers.map((reader) => () => readRedisCpu(reader));
  const bare = server('Fastify bare', []);
  const group: readonly Contender[] = [
    bare,
    server('Fastify + two plain SETs (no file)', [memoryOnly.url, 'plain'], ofMemory),
    server('Fastify + Redis (no file), new key', [memoryOnly.url], ofMemory),
    server('Fastify + Redis (always), new key', [durable.url], ofDurable),
    server('Fastify + PostgreSQL (durable), new key', [postgres.url]),
  ];
  const samples: Map<Contender, Share>[] = [];
  try {
    for (let round = 0; round < rounds; round += 1) samples.push(await measureInTurn(group, ms));
  } finally {
    for (const reader of readers) reader.destroy();
    for (const one of [memoryOnly, durable, postgres]) await one.dispose();
  }
  for (const one of group) {
    const figure = { bench: 'stores', case: one.name } as const;
    const shares = samples.map((sample) => sample.get(one)!);
    const value = median(shares.map(({ perSecond }) => perSecond));
    const ratio = median(
      samples.map((sample) => sample.get(one)!.perSecond / sample.get(bare)!.perSecond),
    );
    report({ ...figure, metric: 'requests/s', value, against: bare.name, ratio });
    const cpu = median(shares.map(({ cpuMicros }) => cpuMicros));
    report({ ...figure, metric: 'µs CPU/request', value: cpu });
    if (one.meter === undefined) continue;
    const redis = median(shares.map(({ metered }) => metered));
    report({ ...figure, metric: 'µs Redis CPU/request', value: redis });
  }
}

/** `args`: where the store is and, for the yardstick, that it only writes twice. */
function server(name: string, args: readonly string[], meter?: Contender['meter']): Contender {
  const start = () => startChild(SERVER, args);
  return { name, keys: 'new', start, ...(meter && { meter }) };
}
