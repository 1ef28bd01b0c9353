import type { BenchOptions } from '../benches.ts';
import { median, type Report } from '../report.ts';
import { type Contender, measureInTurn, type Share } from './in-turn.ts';
import { startGateway, startServer } from './processes.ts';
import type { ServerKind } from './server-child.ts';

/** What is compared, each with the first of its group. */
const groups: readonly (readonly Contender[])[] = [
  [
    server('Fastify bare', 'fastify'),
    server('Fastify + wal, new key', 'fastify+wal'),
    server('Fastify + memory, new key', 'fastify+memory'),
    server('Fastify + wal, replay', 'fastify+wal', 'same'),
  ],
  [server('Express bare', 'express'), server('Express + memory, new key', 'express+memory')],
  [
    { name: 'gateway, no key', keys: 'none', start: startGateway },
    { name: 'gateway, new key', keys: 'new', start: startGateway },
  ],
];

function server(name: string, kind: ServerKind, keys: Contender['keys'] = 'new'): Contender {
  return { name, keys, start: () => startServer(kind) };
}

/** Each server against its framework bare, with the load in another process; the median of the rounds. */
export async function benchHttp(report: Report, { quick }: BenchOptions): Promise<void> {
  const rounds = quick ? 1 : 3;
  const ms = quick ? 1_500 : 5_000;
  for (const group of groups) {
    const samples: Map<Contender, Share>[] = [];
    for (let round = 0; round < rounds; round += 1) samples.push(await measureInTurn(group, ms));
    const [bare] = group as [Contender, ...Contender[]];
    for (const one of group) {
      const figure = { bench: 'http', case: one.name } as const;
      const shares = samples.map((sample) => sample.get(one)!);
      const value = median(shares.map(({ perSecond }) => perSecond));
      const ratio = median(
        samples.map((sample) => sample.get(one)!.perSecond / sample.get(bare)!.perSecond),
      );
      report({ ...figure, metric: 'requests/s', value, against: bare.name, ratio });
      const cpu = median(shares.map(({ cpuMicros }) => cpuMicros));
      report({ ...figure, metric: 'µs CPU/request', value: cpu });
    }
  }
}
