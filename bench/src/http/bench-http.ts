import type { BenchOptions } from '../benches.ts';
import { median, type Report } from '../report.ts';
import type { LoadTask } from './load-child.ts';
import { runLoad, startGateway, startServer } from './processes.ts';
import type { ServerKind } from './server-child.ts';

interface Case {
  readonly name: string;
  readonly server: ServerKind | 'gateway';
  readonly keys: LoadTask['keys'];
  /** The name of the case it is compared with. */
  readonly against: string;
}

const CONNECTIONS = 64;

const cases: readonly Case[] = [
  { name: 'Fastify bare', server: 'fastify', keys: 'new', against: 'Fastify bare' },
  { name: 'Fastify + wal, new key', server: 'fastify+wal', keys: 'new', against: 'Fastify bare' },
  {
    name: 'Fastify + memory, new key',
    server: 'fastify+memory',
    keys: 'new',
    against: 'Fastify bare',
  },
  { name: 'Fastify + wal, replay', server: 'fastify+wal', keys: 'same', against: 'Fastify bare' },
  { name: 'Express bare', server: 'express', keys: 'new', against: 'Express bare' },
  {
    name: 'Express + memory, new key',
    server: 'express+memory',
    keys: 'new',
    against: 'Express bare',
  },
  { name: 'gateway, no key', server: 'gateway', keys: 'none', against: 'gateway, no key' },
  { name: 'gateway, new key', server: 'gateway', keys: 'new', against: 'gateway, no key' },
];

interface Sample {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

/** Each case against its framework bare, in turn, with the load in another process; the median of the rounds. */
export async function benchHttp(report: Report, { quick }: BenchOptions): Promise<void> {
  const rounds = quick ? 1 : 3;
  const ms = quick ? 1_500 : 5_000;
  const samples = new Map<Case, Sample[]>(cases.map((one) => [one, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const one of cases) samples.get(one)!.push(await measure(one, ms));
  }
  const rateOf = (one: Case) => median(samples.get(one)!.map(({ perSecond }) => perSecond));
  for (const one of cases) {
    const bare = cases.find(({ name }) => name === one.against)!;
    const value = rateOf(one);
    const figure = { bench: 'http', case: one.name } as const;
    const ratio = value / rateOf(bare);
    report({ ...figure, metric: 'requests/s', value, against: bare.name, ratio });
    const cpu = median(samples.get(one)!.map(({ cpuMicros }) => cpuMicros));
    report({ ...figure, metric: 'µs CPU/request', value: cpu });
  }
}

async function measure(one: Case, ms: number): Promise<Sample> {
  const server = one.server === 'gateway' ? await startGateway() : await startServer(one.server);
  try {
    const task = { port: server.port, path: '/orders', connections: CONNECTIONS, keys: one.keys };
    await runLoad({ ...task, ms: ms / 2 });
    const before = await server.cpu();
    const { requests, seconds, refused, replayed } = await runLoad({ ...task, ms });
    const used = (await server.cpu()) - before;
    if (refused > 0) throw new Error(`${one.name}: ${refused} of ${requests} were refused`);
    const expected = one.keys === 'same' ? requests - 1 : 0;
    if (replayed < expected || (expected === 0 && replayed > 0)) {
      throw new Error(`${one.name}: ${replayed} of ${requests} were replays`);
    }
    return { perSecond: requests / seconds, cpuMicros: used / requests };
  } finally {
    await server.stop();
  }
}
