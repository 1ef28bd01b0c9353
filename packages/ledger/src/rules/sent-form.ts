import type { JournalEntry, JournalSide } from './journal.ts';

/**
 * How a transaction was written. Its entries are kept in one form: names in capitals, amounts as text, policies
 * spelt out. A number says what every entry had otherwise, as a sum of the marks below; text is the whole body,
 * where that does not do.
 */
export type SentForm = number | string;

const AMOUNT_IS_NUMBER = 1;
const DEBIT_HAS_NO_POLICY = 2;
const CREDIT_HAS_NO_POLICY = 4;

interface SentEntry {
  readonly type: string;
  readonly asset: string;
  readonly amount: unknown;
  readonly debit: { readonly balance_policy?: unknown };
  readonly credit: { readonly balance_policy?: unknown };
}

/** Of a body that was checked, and the entries that came of it. */
export function sentForm(body: unknown, entries: readonly JournalEntry[]): SentForm {
  const { journal_entries: list } = body as { journal_entries: readonly SentEntry[] };
  const form = marksOf(list[0] as SentEntry, entries[0] as JournalEntry);
  for (let at = 1; at < list.length && form !== undefined; at += 1) {
    const marks = marksOf(list[at] as SentEntry, entries[at] as JournalEntry);
    if (marks !== form) return exactText({ journal_entries: list });
  }
  return form ?? exactText({ journal_entries: list });
}

function marksOf({ type, asset, amount, debit, credit }: SentEntry, kept: JournalEntry) {
  if (type !== kept.type || asset !== kept.asset) return undefined;
  if (debit.balance_policy === null || credit.balance_policy === null) return undefined;
  return (
    (typeof amount === 'string' ? 0 : AMOUNT_IS_NUMBER) |
    (debit.balance_policy === undefined ? DEBIT_HAS_NO_POLICY : 0) |
    (credit.balance_policy === undefined ? CREDIT_HAS_NO_POLICY : 0)
  );
}

/** JSON in which a bigint is a number with all its digits. */
function exactText(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return `[${value.map(exactText).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${exactText(member)}`).join(',')}}`;
}

/** The body of a transaction as it was sent, as JSON: the same members with the same values. */
export function sentText(entries: readonly JournalEntry[], form: SentForm): string {
  if (typeof form === 'string') return form;
  const list = entries.map(({ sequence, type, asset, amount, debit, credit }) => {
    const value = form & AMOUNT_IS_NUMBER ? amount : `"${amount}"`;
    const sides =
      `"debit":${sideText(debit, form & DEBIT_HAS_NO_POLICY)},` +
      `"credit":${sideText(credit, form & CREDIT_HAS_NO_POLICY)}`;
    return `{"sequence":${sequence},"type":"${type}","asset":"${asset}","amount":${value},${sides}}`;
  });
  return `{"journal_entries":[${list.join(',')}]}`;
}

function sideText({ account_id, balance_policy }: JournalSide, hasNoPolicy: number): string {
  const policy = hasNoPolicy ? '' : `,"balance_policy":"${balance_policy}"`;
  return `{"account_id":"${account_id}"${policy}}`;
}
