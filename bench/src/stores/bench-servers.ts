import { createClient } from '@redis/client';
import { startPostgres, startRedis } from '../../../scripts/services/index.ts';
import type { BenchOptions } from '../benches.ts';
import { runLoad, startChild } from '../http/processes.ts';
import { median, type Report } from '../report.ts';
import { readRedisCpu } from './redis-cpu.ts';

const CONNECTIONS = 64;
const SERVER = new URL('./server-child.ts', import.meta.url);
const BARE = 'Fastify bare';

interface Case {
  readonly name: string;
  /** What the server is told: where the store is and, for the yardstick, that it only writes twice. */
  readonly args: readonly string[];
}

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
  /** Only where the store is in Redis. */
  readonly redisMicros: number | null;
}

/** Requests with a new key each, the load in another process, in turn with the same server bare. */
export async function benchServers(report: Report, { quick }: BenchOptions): Promise<void> {
  const rounds = quick ? 1 : 3;
  const ms = quick ? 1_500 : 3_000;
  const memoryOnly = await startRedis({ appendfsync: 'no' });
  const durable = await startRedis({ appendfsync: 'always' });
  const postgres = await startPostgres({ settings: { fsync: 'on', synchronous_commit: 'on' } });
  const cases: readonly Case[] = [
    { name: BARE, args: [] },
    { name: 'Fastify + two plain SETs (no file)', args: [memoryOnly.url, 'plain'] },
    { name: 'Fastify + Redis (no file), new key', args: [memoryOnly.url] },
    { name: 'Fastify + Redis (always), new key', args: [durable.url] },
    { name: 'Fastify + PostgreSQL (durable), new key', args: [postgres.url] },
  ];
  const samples = new Map<Case, Sample[]>(cases.map((one) => [one, []]));
  try {
    for (let round = 0; round < rounds; round += 1) {
      for (const one of cases) samples.get(one)!.push(await measure(one, ms));
    }
  } finally {
    for (const server of [memoryOnly, durable, postgres]) await server.dispose();
  }
  const [bare] = cases as [Case, ...Case[]];
  const rateOf = (one: Case) => median(samples.get(one)!.map(({ perSecond }) => perSecond));
  for (const one of cases) {
    const figure = { bench: 'stores', case: one.name } as const;
    const value = rateOf(one);
    const ratio = value / rateOf(bare);
    report({ ...figure, metric: 'requests/s', value, against: BARE, ratio });
    const found = samples.get(one)!;
    const cpu = median(found.map(({ cpuMicros }) => cpuMicros));
    report({ ...figure, metric: 'µs CPU/request', value: cpu });
    const redis = found.flatMap(({ redisMicros }) => (redisMicros === null ? [] : [redisMicros]));
    if (redis.length > 0) {
      report({ ...figure, metric: 'µs Redis CPU/request', value: median(redis) });
    }
  }
}

async function measure({ name, args }: Case, ms: number): Promise<Sample> {
  const server = await startChild(SERVER, args);
  const [url] = args;
  const redis = url?.startsWith('redis:') ? createClient({ url }) : null;
  try {
    await redis?.connect();
    const target = { port: server.port, path: '/orders', connections: CONNECTIONS };
    const task = { ...target, keys: 'new' } as const;
    await runLoad({ ...task, ms: ms / 2 });
    const redisBefore = redis === null ? 0 : await readRedisCpu(redis);
    const before = await server.cpu();
    const { requests, seconds, refused, replayed } = await runLoad({ ...task, ms });
    const used = (await server.cpu()) - before;
    const redisMicros =
      redis === null ? null : ((await readRedisCpu(redis)) - redisBefore) / requests;
    if (refused + replayed > 0) {
      throw new Error(`${name}: of ${requests}, ${refused} were refused and ${replayed} replayed`);
    }
    return { perSecond: requests / seconds, cpuMicros: used / requests, redisMicros };
  } finally {
    redis?.destroy();
    await server.stop();
  }
}
