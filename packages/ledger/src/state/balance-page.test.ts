import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AccountTable, type OpenAccount } from './account-table.ts';
import type { AccountPage } from './ledger-home.ts';

const WIDE = 2n ** 255n - 1n;
const balances = fc.oneof(
  fc.bigInt({ min: -1_000n, max: 1_000n }),
  fc.constantFrom(2n ** 63n - 1n, 2n ** 63n, -(2n ** 63n), -(2n ** 63n) - 1n, WIDE, -WIDE),
  fc.bigInt({ min: -WIDE, max: WIDE }),
);
const postings = fc.record({
  account: fc.nat(299),
  balance: balances,
  height: fc.integer({ min: 1, max: 2 ** 40 }),
  position: fc.nat(9_999),
  entry: fc.integer({ min: 1, max: 1_000 }),
});

/** What a home would have after several checkpoints. */
class Saved {
  readonly #pages = new Map<number, AccountPage>();

  take(table: AccountTable): void {
    const { accountPages, balancePages } = table.takeChanges();
    for (const [page, records] of accountPages) {
      this.#pages.set(page, { records: Buffer.from(records), balances: undefined });
    }
    for (const [page, bytes] of balancePages) {
      const { records } = this.#pages.get(page) as AccountPage;
      this.#pages.set(page, { records, balances: Buffer.from(bytes) });
    }
  }

  restored(count: number): AccountTable {
    const table = new AccountTable();
    const pages = [...this.#pages].sort(([a], [b]) => a - b).map(([, page]) => page);
    table.restore(pages, count);
    return table;
  }
}

describe('balance pages', () => {
  it('bring back every account after any postings and checkpoints, however wide its balance', () => {
    fc.assert(
      fc.property(fc.array(fc.array(postings, { maxLength: 30 }), { maxLength: 5 }), (batches) => {
        const table = new AccountTable();
        const saved = new Saved();
        for (let made = 0; made < 100; made += 1) table.add('WALLET', 'USD');
        for (const batch of batches) {
          for (let made = 0; made < 50; made += 1) table.add('WALLET', 'EUR');
          for (const { account, balance, ...last } of batch) {
            const open = table.open(account % table.count) as OpenAccount;
            table.post(open, balance, last);
          }
          table.seal();
          saved.take(table);
        }
        const restored = saved.restored(batches.length === 0 ? 0 : table.count);
        if (batches.length > 0) expect(restored.top).toBe(table.top);
        expect([...restored.all()]).toEqual([...table.all()]);
      }),
      { numRuns: 60 },
    );
  });
});
