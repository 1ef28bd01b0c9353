import type { BenchOptions } from '../benches.ts';
import type { Report } from '../report.ts';
import { type Contender, compareInTurn } from './in-turn.ts';
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

export async function benchHttp(report: Report, options: BenchOptions): Promise<void> {
  for (const group of groups) await compareInTurn(report, 'http', group, 5_000, options);
}
