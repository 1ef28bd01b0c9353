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
  const windowMs = quick ? 1_000 : 3_000;
  const rounds = quick ? 1 : 3;
  const bench = 'ledger';
  const name = (accounts: number) =>
    `${accounts.toLocaleString('en')} accounts, ${IN_FLIGHT} in flight`;
  const few = await Subject.open(FEW, windowMs);
  const sql: number[] = [];
  // Alternating, so that noise of the machine affects both.
  for (let round = 0; round < rounds; round += 1) {
    sql.push(await measureSql(FEW, (2 * windowMs) / 1_000));
    await few.pay(2);
  }
  const fewResult = await few.finish();
  const against = 'pgbench, the same in SQL';
  report({ bench, case: against, metric: 'transactions/s', value: median(sql) });
  const { perSecond, cpuMicros, duplicateNanos } = fewResult;
  const ratio = perSecond / median(sql);
  report({ bench, case: name(FEW), metric: 'transactions/s', value: perSecond, against, ratio });
  report({ bench, case: name(FEW), metric: 'µs CPU/transaction', value: cpuMicros });
  report({ bench, case: 'duplicate in flight', metric: 'ns', value: duplicateNanos });
  const accounts = quick ? MANY / 10 : MANY;
  const many = await Subject.open(accounts, windowMs);
  await many.pay(2 * rounds);
  const grown = await many.finish();
  const figure = { bench, case: name(accounts), against: name(FEW) };
  const slower = grown.perSecond / perSecond;
  report({ ...figure, metric: 'transactions/s', value: grown.perSecond, ratio: slower });
  const dearer = grown.cpuMicros / cpuMicros;
  report({ ...figure, metric: 'µs CPU/transaction', value: grown.cpuMicros, ratio: dearer });
  report({ bench, case: 'reopened after it', metric: 'ms', value: grown.openMs });
  await benchDoors(report, { quick });
}

/** A ledger with so many accounts, and what was measured on it. */
class Subject {
  readonly #directory: string;
  readonly #ledger: Ledger;
  readonly #accounts: number;
  readonly #windowMs: number;
  readonly #windows: { readonly perSecond: number; readonly cpuMicros: number }[] = [];

  private constructor(directory: string, ledger: Ledger, accounts: number, windowMs: number) {
    this.#directory = directory;
    this.#ledger = ledger;
    this.#accounts = accounts;
    this.#windowMs = windowMs;
  }

  static async open(accounts: number, windowMs: number): Promise<Subject> {
    const directory = await mkdtemp(join(tmpdir(), 'onceward-bench-ledger-'));
    const ledger = await openLedger({ directory });
    await makeAccounts(ledger, accounts);
    await payFor(ledger, accounts, windowMs, 'warm');
    return new Subject(directory, ledger, accounts, windowMs);
  }

  async pay(windows: number): Promise<void> {
    for (let window = 0; window < windows; window += 1) {
      const name = `window${this.#windows.length}`;
      this.#windows.push(await payFor(this.#ledger, this.#accounts, this.#windowMs, name));
    }
  }

  async finish() {
    const directory = this.#directory;
    try {
      const duplicateNanos = timeDuplicates(this.#ledger);
      await this.#ledger.close();
      const begun = performance.now();
      const again = await openLedger({ directory });
      const openMs = performance.now() - begun;
      await again.close();
      const perSecond = median(this.#windows.map((window) => window.perSecond));
      const cpuMicros = median(this.#windows.map((window) => window.cpuMicros));
      return { perSecond, cpuMicros, duplicateNanos, openMs };
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
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

/** Between two accounts that are drawn each time, uniformly: no cache is helped. */
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
