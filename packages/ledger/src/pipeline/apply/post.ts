import { type Refusal, refuse } from '../../refusal.ts';
import { accountNumber } from '../../rules/account-id.ts';
import { type BalancePolicy, type JournalSide, unknownAccount } from '../../rules/journal.ts';
import { BALANCE_LIMIT, type EntryPointer } from '../../state/account-record.ts';
import type { Machine } from '../machine.ts';
import type { Effect } from '../outcome.ts';

interface Posting {
  readonly asset: string;
  readonly amount: string;
  readonly debit: JournalSide;
  readonly credit: JournalSide;
}

/** Moves the amount, or says why not; then the caller undoes what it did before. */
export function post(machine: Machine, posting: Posting, pointer: EntryPointer): Effect | Refusal {
  const { accounts } = machine;
  const { asset, debit, credit } = posting;
  const from = accounts.open(accountNumber(debit.account_id) ?? Number.NaN);
  if (from === undefined) return unknownAccount('debit');
  const to = accounts.open(accountNumber(credit.account_id) ?? Number.NaN);
  if (to === undefined) return unknownAccount('credit');
  const code = accounts.assetCode(asset);
  if (from.assetCode !== code) return wrongAsset('debit', debit, asset);
  if (to.assetCode !== code) return wrongAsset('credit', credit, asset);
  const amount = BigInt(posting.amount);
  const fromBalance = from.balance - amount;
  const toBalance = to.balance + amount;
  if (!permits(debit.balance_policy, fromBalance)) return forbidden('debited', debit);
  if (!permits(credit.balance_policy, toBalance)) return forbidden('credited', credit);
  if (fromBalance <= -BALANCE_LIMIT || toBalance >= BALANCE_LIMIT) return OUT_OF_RANGE;
  const before = [from.last, to.last] as const;
  accounts.post(from, fromBalance, pointer);
  accounts.post(to, toBalance, pointer);
  return [
    pointer.entry,
    fromBalance.toString(),
    pointerText(before[0]),
    toBalance.toString(),
    pointerText(before[1]),
  ];
}

/** What must be true of a side before it is worth logging. Says nothing that applying would not say as well. */
export function findAccountFault(
  machine: Machine,
  { asset, debit, credit }: Posting,
): Refusal | undefined {
  const code = machine.accounts.assetCode(asset);
  for (const [name, side] of [
    ['debit', debit],
    ['credit', credit],
  ] as const) {
    const held = machine.accounts.assetCodeAt(accountNumber(side.account_id) ?? Number.NaN);
    if (held === undefined) return unknownAccount(name);
    if (held !== code) return wrongAsset(name, side, asset);
  }
  return undefined;
}

function permits(policy: BalancePolicy, balance: bigint): boolean {
  if (policy === 'ALWAYS_POSITIVE') return balance >= 0n;
  return policy === 'NONE' || balance <= 0n;
}

function wrongAsset(side: string, { account_id }: JournalSide, asset: string): Refusal {
  return refuse('INVALID_FIELD', `The ${side} account ${account_id} does not hold ${asset}.`);
}

function forbidden(side: string, { account_id, balance_policy }: JournalSide): Refusal {
  return refuse(
    'INSUFFICIENT_FUNDS',
    `The ${side} account ${account_id} would break its balance policy ${balance_policy}.`,
  );
}

const OUT_OF_RANGE = refuse(
  'BALANCE_OUT_OF_RANGE',
  'A balance would leave the range of 2^255 either way.',
);

/** Empty for an account without entries. */
export function pointerText({ height, position, entry }: EntryPointer): string {
  return height === 0 ? '' : `${height}.${position}.${entry}`;
}

export function parsePointer(text: string): EntryPointer | undefined {
  const match = /^([1-9]\d{0,14})\.(\d{1,5})\.(\d{1,5})$/.exec(text);
  if (match === null) return undefined;
  return { height: Number(match[1]), position: Number(match[2]), entry: Number(match[3]) };
}
