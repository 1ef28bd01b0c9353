import type { BenchOptions } from '../benches.ts';
import { runLoad, startChild } from '../http/processes.ts';
import { median, type Report } from '../report.ts';
import type { LedgerServerKind } from './server-child.ts';

const CONNECTIONS = 64;
const BODY = JSON.stringify({
  journal_entries: [
    {
      sequence: 1,
      type: 'PAYMENT',
      asset: 'USD',
      amount: 100,
      debit: { account_id: 'acct_0', balance_policy: 'NONE' },
      credit: { account_id: 'acct_1', balance_policy: 'NONE' },
    },
  ],
});

/** Durable transactions over HTTP, against a bare Fastify that takes and gives the same JSON. */
export async function benchDoors(report: Report, { quick }: BenchOptions): Promise<void> {
  const rounds = quick ? 1 : 3;
  const ms = quick ? 1_500 : 5_000;
  const bare: Sample[] = [];
  const ledger: Sample[] = [];
  for (let round = 0; round < rounds; round += 1) {
    bare.push(await measure('bare', ms));
    ledger.push(await measure('ledger', ms));
  }
  const emit = (name: string, samples: readonly Sample[]) => {
    const figure = { bench: 'ledger', case: name, against: 'Fastify bare' } as const;
    const value = median(samples.map(({ perSecond }) => perSecond));
    const ratio = value / median(bare.map(({ perSecond }) => perSecond));
    report({ ...figure, metric: 'requests/s', value, ratio });
    const cpu = median(samples.map(({ cpuMicros }) => cpuMicros));
    const cpuRatio = cpu / median(bare.map(({ cpuMicros }) => cpuMicros));
    report({ ...figure, metric: 'µs CPU/request', value: cpu, ratio: cpuRatio });
  };
  emit('POST /transaction, Fastify bare', bare);
  emit('POST /transaction, ledger', ledger);
}

interface Sample {
  readonly perSecond: number;
  /** Of the server's process. */
  readonly cpuMicros: number;
}

async function measure(kind: LedgerServerKind, ms: number): Promise<Sample> {
  const server = await startChild(new URL('./server-child.ts', import.meta.url), [kind]);
  try {
    const task = {
      port: server.port,
      path: '/transaction',
      connections: CONNECTIONS,
      keys: 'new',
      body: BODY,
      headers: 'X-Api-Key: ak_bench\r\nX-Api-Secret: sk_bench\r\n',
    } as const;
    await runLoad({ ...task, ms: ms / 2 });
    const before = await server.cpu();
    const { requests, seconds, refused } = await runLoad({ ...task, ms });
    if (refused > 0) throw new Error(`${refused} were refused`);
    const used = (await server.cpu()) - before;
    return { perSecond: requests / seconds, cpuMicros: used / requests };
  } finally {
    await server.stop();
  }
}
