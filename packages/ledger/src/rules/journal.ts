import { LIMITS } from '../limits.ts';
import { type Checked, type Refusal, refuse } from '../refusal.ts';
import { accountNumber } from './account-id.ts';
import { ACTOR_CLAIMED, claimsActor } from './actor.ts';
import { checkAmount } from './amount.ts';

export type BalancePolicy = 'ALWAYS_POSITIVE' | 'ALWAYS_NEGATIVE' | 'NONE';

export interface JournalSide {
  readonly account_id: string;
  readonly balance_policy: BalancePolicy;
}

/** Moves an amount of one asset from the debited account to the credited one. */
export interface JournalEntry {
  readonly sequence: number;
  readonly type: string;
  readonly asset: string;
  readonly amount: string;
  readonly debit: JournalSide;
  readonly credit: JournalSide;
}

/** Classes for the reason that `Ticket` is one. */
class CheckedSide implements JournalSide {
  readonly account_id: string;
  readonly balance_policy: BalancePolicy;

  constructor(account: string, policy: BalancePolicy) {
    this.account_id = account;
    this.balance_policy = policy;
  }
}

class CheckedEntry implements JournalEntry {
  readonly sequence: number;
  readonly type: string;
  readonly asset: string;
  readonly amount: string;
  readonly debit: JournalSide;
  readonly credit: JournalSide;

  constructor(
    sequence: number,
    type: string,
    asset: string,
    amount: string,
    debit: JournalSide,
    credit: JournalSide,
  ) {
    this.sequence = sequence;
    this.type = type;
    this.asset = asset;
    this.amount = amount;
    this.debit = debit;
    this.credit = credit;
  }
}

const POLICIES = new Set(['ALWAYS_POSITIVE', 'ALWAYS_NEGATIVE', 'NONE']);
const NAME = /^[A-Z0-9_]+$/;
const TRANSACTION_MEMBERS = new Set(['journal_entries']);
const ENTRY_MEMBERS = new Set(['sequence', 'type', 'asset', 'amount', 'debit', 'credit']);
const SIDE_MEMBERS = new Set(['account_id', 'balance_policy']);
const ACCOUNT_MEMBERS = new Set(['category', 'asset']);

/** What the ledger does not know it cannot keep, so it takes nothing that it would have to drop. */
function findUnknown(
  input: object,
  members: ReadonlySet<string>,
  place: string,
): Refusal | undefined {
  for (const name of Object.keys(input)) {
    if (members.has(name)) continue;
    const known = [...members].join(', ');
    const shown = JSON.stringify(name.slice(0, 40));
    return refuse('INVALID_FIELD', `${place} has the member ${shown}; it may have ${known}.`);
  }
  return undefined;
}

/**
 * Takes the body of a transaction in any form that JSON can have, and returns its entries in the one form that
 * is kept.
 */
export function checkJournal(input: unknown): Checked<readonly JournalEntry[]> {
  if (typeof input !== 'object' || input === null) {
    return refuse('INVALID_FIELD', 'A transaction must be an object with journal_entries.');
  }
  if (claimsActor(input)) return ACTOR_CLAIMED;
  const unknown = findUnknown(input, TRANSACTION_MEMBERS, 'A transaction');
  if (unknown !== undefined) return unknown;
  const { journal_entries: list } = input as { journal_entries?: unknown };
  if (!Array.isArray(list) || list.length === 0) {
    return refuse('INVALID_FIELD', 'journal_entries must be a list of at least one entry.');
  }
  if (list.length > LIMITS.journalEntries) {
    const limit = `the limit is ${LIMITS.journalEntries}`;
    return refuse('TOO_LARGE', `journal_entries has ${list.length} entries; ${limit}.`);
  }
  const entries: JournalEntry[] = [];
  for (let at = 0; at < list.length; at += 1) {
    const entry = checkEntry(list[at], at);
    if (!entry.ok) return entry;
    entries.push(entry.value);
  }
  return { ok: true, value: entries };
}

function checkEntry(input: unknown, at: number): Checked<JournalEntry> {
  const place = `journal_entries[${at}]`;
  if (typeof input !== 'object' || input === null) {
    return refuse('INVALID_FIELD', `${place} must be an object.`);
  }
  const raw = input as Readonly<Record<string, unknown>>;
  const unknown = findUnknown(raw, ENTRY_MEMBERS, place);
  if (unknown !== undefined) return unknown;
  if (raw.sequence !== at + 1) {
    return refuse(
      'INVALID_SEQUENCE',
      `${place}.sequence must be ${at + 1}: entries are numbered from 1 without gaps.`,
    );
  }
  const type = checkName(raw.type, `${place}.type`, LIMITS.typeLength);
  if (!type.ok) return type;
  const asset = checkName(raw.asset, `${place}.asset`, LIMITS.assetLength);
  if (!asset.ok) return asset;
  const amount = checkAmount(raw.amount, `${place}.amount`);
  if (!amount.ok) return amount;
  const debit = checkSide(raw.debit, `${place}.debit`);
  if (!debit.ok) return debit;
  const credit = checkSide(raw.credit, `${place}.credit`);
  if (!credit.ok) return credit;
  if (debit.value.account_id === credit.value.account_id) {
    return refuse('INVALID_FIELD', `${place} debits and credits one and the same account.`);
  }
  const value = new CheckedEntry(
    at + 1,
    type.value,
    asset.value,
    amount.value,
    debit.value,
    credit.value,
  );
  return { ok: true, value };
}

function checkSide(input: unknown, place: string): Checked<JournalSide> {
  if (typeof input !== 'object' || input === null) {
    return refuse('INVALID_FIELD', `${place} must be an object with account_id.`);
  }
  const raw = input as Readonly<Record<string, unknown>>;
  if (typeof raw.account_id !== 'string' || raw.account_id === '') {
    return refuse('INVALID_FIELD', `${place}.account_id must be the id of an account.`);
  }
  if (raw.amount !== undefined || raw.asset !== undefined) {
    return refuse(
      'INVALID_FIELD',
      `${place} has an amount or asset of its own. They stand at the entry, for both sides: entries always balance.`,
    );
  }
  const unknown = findUnknown(raw, SIDE_MEMBERS, place);
  if (unknown !== undefined) return unknown;
  if (accountNumber(raw.account_id) === undefined) return unknownAccount(place);
  const policy = raw.balance_policy ?? 'NONE';
  if (typeof policy !== 'string' || !POLICIES.has(policy)) {
    return refuse(
      'INVALID_BALANCE_POLICY',
      `${place}.balance_policy must be ALWAYS_POSITIVE, ALWAYS_NEGATIVE or NONE.`,
    );
  }
  return { ok: true, value: new CheckedSide(raw.account_id, policy as BalancePolicy) };
}

export function unknownAccount(place: string): Refusal {
  return refuse('ACCOUNT_NOT_FOUND', `${place}.account_id names no account of this ledger.`);
}

export function checkAccount(input: unknown): Checked<{ category: string; asset: string }> {
  if (typeof input !== 'object' || input === null) {
    return refuse('INVALID_FIELD', 'An account must be an object with category and asset.');
  }
  if (claimsActor(input)) return ACTOR_CLAIMED;
  const raw = input as Readonly<Record<string, unknown>>;
  const unknown = findUnknown(raw, ACCOUNT_MEMBERS, 'An account');
  if (unknown !== undefined) return unknown;
  const category = checkName(raw.category, 'category', LIMITS.categoryLength);
  if (!category.ok) return category;
  const asset = checkName(raw.asset, 'asset', LIMITS.assetLength);
  if (!asset.ok) return asset;
  return { ok: true, value: { category: category.value, asset: asset.value } };
}

/** Names are written in capitals; lower case is taken for them. */
function checkName(name: unknown, place: string, limit: number): Checked<string> {
  if (typeof name === 'string' && name.length <= limit) {
    const upper = NAME.test(name) ? name : name.toUpperCase();
    if (NAME.test(upper) && upper.length === name.length) return { ok: true, value: upper };
  }
  return refuse('INVALID_FIELD', `${place} must be 1 to ${limit} of A-Z, 0-9 and _.`);
}
