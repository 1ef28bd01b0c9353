import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Ledger, openLedger } from '@onceward/ledger';
import type { BenchOptions } from './benches.ts';
import { benchDoors } from './ledger-doors/bench-doors.ts';
import { measureSql } from './ledger-doors/bench-sql.ts';
import { median, type Report } from './report.ts';

const CALLER = { actor: 'client:bench', credential: 'ak_bench' } as const;
const IN_FLIGHT = 256;
const FEW = 10_000;
const MANY = 1_000_000;
const ACCOUNTS_AT_ONCE = 10_000;

/** Durable double-entry transactions through the whole pipeline, in this process, on this disk. */
export async function benchLedger(report: Report, { quick }: BenchOptions): Promise<void> {
  const windowMs = quick ? 1_000 : 4_000;
  const windows = quick ? 3 : 7;
  const few = await measure(FEW, windows, windowMs);
  const name = (accounts: number) =>
    `${accounts.toLocaleString('en')} accounts, ${IN_FLIGHT} in flight`;
  const bench = 'ledger';
  report({ bench, case: name(FEW), metric: 'transactions/s', value: few.perSecond });
  report({ bench, case: name(FEW), metric: 'µs CPU/transaction', value: few.cpuMicros });
  report({ bench, case: 'duplicate in flight', metric: 'ns', value: few.duplicateNanos });
  const many = await measure(quick ? MANY / 10 : MANY, windows, windowMs);
  const grown = { bench, case: name(quick ? MANY / 10 : MANY), against: name(FEW) };
  report({
    ...grown,
    metric: 'transactions/s',
    value: many.perSecond,
    ratio: many.perSecond / few.perSecond,
  });
  report({
    ...grown,
    metric: 'µs CPU/transaction',
    value: many.cpuMicros,
    ratio: many.cpuMicros / few.cpuMicros,
  });
  report({ bench, case: 'reopened after it', metric: 'ms', value: many.openMs });
  const sql = await measureSql(FEW, (windows * windowMs) / 1_000);
  const against = 'pgbench, the same in SQL';
  report({ bench, case: against, metric: 'transactions/s', value: sql });
  const ratio = few.perSecond / sql;
  report({
    bench,
    case: name(FEW),
    metric: 'transactions/s',
    value: few.perSecond,
    against,
    ratio,
  });
  await benchDoors(report, { quick });
}

async function measure(accounts: number, windows: number, windowMs: number) {
  const directory = await mkdtemp(join(tmpdir(), 'onceward-bench-ledger-'));
  try {
    const ledger = await openLedger({ directory });
    await makeAccounts(ledger, accounts);
    const runs = [];
    await payFor(ledger, accounts, windowMs, 'warm');
    for (let run = 0; run < windows; run += 1) {
      runs.push(await payFor(ledger, accounts, windowMs, `run${run}`));
    }
    const duplicateNanos = timeDuplicates(ledger);
    await ledger.close();
    const begun = performance.now();
    const again = await openLedger({ directory });
    const openMs = performance.now() - begun;
    await again.close();
    return {
      perSecond: median(runs.map((run) => run.perSecond)),
      cpuMicros: median(runs.map((run) => run.cpuMicros)),
      duplicateNanos,
      openMs,
    };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function makeAccounts(ledger: Ledger, count: number): Promise<void> {
  for (let made = 0; made < count; made += ACCOUNTS_AT_ONCE) {
    const some = Array.from({ length: Math.min(ACCOUNTS_AT_ONCE, count - made) }, () =>
      ledger.createAccount(CALLER, { category: 'WALLET', asset: 'USD' }),
    );
    await Promise.all(some);
  }
  await ledger.checkpoint();
}

async function payFor(ledger: Ledger, accounts: number, ms: number, name: string) {
  let paid = 0;
  const begun = performance.now();
  const cpu = process.cpuUsage();
  const worker = async () => {
    while (performance.now() < begun + ms) {
      const number = paid++;
      const result = await ledger.transact(CALLER, `${name}-payment-${number}`, payment(accounts));
      if (!result.ok) throw new Error(result.message);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  const { user, system } = process.cpuUsage(cpu);
  const perSecond = (paid * 1_000) / (performance.now() - begun);
  return { perSecond, cpuMicros: (user + system) / paid };
}

/** Between two accounts that are chosen anew each time, evenly: no cache is helped. */
function payment(accounts: number) {
  const from = Math.floor(Math.random() * accounts);
  const to = (from + 1 + Math.floor(Math.random() * (accounts - 1))) % accounts;
  return {
    journal_entries: [
      {
        sequence: 1,
        type: 'PAYMENT',
        asset: 'USD',
        amount: 100,
        debit: { account_id: `acct_${from}`, balance_policy: 'NONE' },
        credit: { account_id: `acct_${to}`, balance_policy: 'NONE' },
      },
    ],
  };
}

/** All in one turn of the event loop, so that the first one stays in flight. */
function timeDuplicates(ledger: Ledger): number {
  const rounds = 300_000;
  const body = payment(2);
  const nanos: number[] = [];
  void ledger.transact(CALLER, 'in-flight', body);
  for (let run = 0; run < 5; run += 1) {
    const begun = process.hrtime.bigint();
    for (let round = 0; round < rounds; round += 1) {
      void ledger.transact(CALLER, 'in-flight', body);
    }
    nanos.push(Number(process.hrtime.bigint() - begun) / rounds);
  }
  return median(nanos);
}
