import type { AccountTable } from './account-table.ts';

export interface AssetSum {
  readonly asset: string;
  readonly accounts: number;
  readonly sum: bigint;
}

const SUMMED_AT_ONCE = 1_000;

/** The sums of all balances by asset, in alphabetical order, in steps for those who have others to let run. */
export function* sumBalances(accounts: AccountTable): Generator<void, readonly AssetSum[]> {
  const sums = new Map<string, { accounts: number; sum: bigint }>();
  for (const { asset, balance, number } of accounts.all()) {
    if (number % SUMMED_AT_ONCE === 0) yield;
    const entry = sums.get(asset) ?? { accounts: 0, sum: 0n };
    sums.set(asset, { accounts: entry.accounts + 1, sum: entry.sum + balance });
  }
  const assets = [...sums].map(([asset, entry]) => ({ asset, ...entry }));
  return assets.sort((a, b) => (a.asset < b.asset ? -1 : 1));
}
