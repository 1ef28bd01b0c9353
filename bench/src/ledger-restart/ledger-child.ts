import { type Ledger, openLedger } from '@onceward/ledger';

/**
 * node ledger-child.ts DIRECTORY [ACCOUNTS TRANSACTIONS]: opens a ledger, says how long that took, and, if given how
 * many, fills it and says so. Then it waits to be killed: nothing is saved that a crash would not leave.
 */
const [directory = '', accounts = '0', transactions = '0'] = process.argv.slice(2);
const CALLER = { actor: 'client:bench', credential: 'ak_bench' } as const;
const IN_FLIGHT = 1_024;
const ACCOUNTS_AT_ONCE = 10_000;

export interface Opened {
  readonly openMs: number;
  /** Of the process, from its first instruction until the ledger serves. */
  readonly processMs: number;
  readonly replayedEntries: number;
  readonly rebuiltBecause: string | null;
  readonly residentBytes: number;
}

const begun = performance.now();
const ledger = await openLedger({ directory });
const opened: Opened = {
  openMs: performance.now() - begun,
  processMs: performance.now(),
  replayedEntries: ledger.opening.replayedEntries,
  rebuiltBecause: ledger.opening.rebuiltBecause,
  residentBytes: process.memoryUsage.rss(),
};
process.send!(opened);
setInterval(() => {}, 1_000);
if (Number(transactions) > 0) {
  await fill(ledger, Number(accounts), Number(transactions));
  process.send!('filled');
}

async function fill(to: Ledger, accountCount: number, count: number): Promise<void> {
  for (let made = 0; made < accountCount; made += ACCOUNTS_AT_ONCE) {
    const some = Array.from({ length: Math.min(ACCOUNTS_AT_ONCE, accountCount - made) }, () =>
      to.createAccount(CALLER, { category: 'WALLET', asset: 'USD' }),
    );
    await Promise.all(some);
  }
  let paid = 0;
  const payer = async () => {
    while (paid < count) {
      paid += 1;
      const result = await to.transact(CALLER, `payment-${paid}`, payment(accountCount));
      if (!result.ok) throw new Error(result.message);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, payer));
}

function payment(accountCount: number) {
  const from = Math.floor(Math.random() * accountCount);
  const to = (from + 1 + Math.floor(Math.random() * (accountCount - 1))) % accountCount;
  const debit = { account_id: `acct_${from}` };
  const credit = { account_id: `acct_${to}` };
  const entry = { sequence: 1, type: 'PAYMENT', asset: 'USD', amount: 100, debit, credit };
  return { journal_entries: [entry] };
}
