import { openLedger, type StoredTransaction } from '@onceward/ledger';
import type { Said } from './testimony.ts';

/** Opens the ledger that a crash has left, and returns every promise that it has broken. */
export async function inspectLedger(directory: string, said: Said): Promise<string[]> {
  const complaints: string[] = [];
  const ledger = await openLedger({ directory });
  try {
    const paid = new Map<string, number>();
    const balances = new Map<string, bigint>();
    let sequence = 0n;
    for (let height = 1; height <= ledger.getTip().header.height; height += 1) {
      for (const text of ledger.getBlock(height)?.texts ?? []) {
        const transaction = JSON.parse(text) as StoredTransaction;
        if (transaction.kind === 'journal') {
          const key = transaction.key as string;
          paid.set(key, (paid.get(key) ?? 0) + 1);
          addUp(balances, transaction);
        } else if (transaction.kind === 'write') {
          sequence += 1n;
          const assigned = transaction.assigned_sequence;
          if (assigned !== `${sequence}`)
            complaints.push(`${assigned} is written where ${sequence} was due`);
        }
      }
    }
    for (const [key, times] of paid)
      if (times > 1) complaints.push(`${key} was paid ${times} times`);
    for (const number of said.paid) {
      if (!paid.has(`payment-${number}`))
        complaints.push(`payment-${number} was acknowledged and is lost`);
    }
    for (const one of said.wrote) {
      if (BigInt(one) > sequence) complaints.push(`write ${one} was acknowledged and is lost`);
    }
    for (const [id, balance] of balances) {
      const found = ledger.reads.account(id)?.balance;
      if (found !== balance)
        complaints.push(`${id} has ${found} where its entries add up to ${balance}`);
    }
    const { ok, chain, state } = await ledger.integrity();
    if (!ok) complaints.push(chain.problem ?? state.problem ?? 'the ledger is not sound');
  } finally {
    await ledger.close();
  }
  return complaints;
}

function addUp(balances: Map<string, bigint>, { entries = [] }: StoredTransaction): void {
  for (const { debit, credit, amount } of entries) {
    const [from, to] = [debit.account_id, credit.account_id];
    balances.set(from, (balances.get(from) ?? 0n) - BigInt(amount));
    balances.set(to, (balances.get(to) ?? 0n) + BigInt(amount));
  }
}
