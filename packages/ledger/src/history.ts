import { StoreError } from 'onceward';
import { type Block, proveTransaction, type TransactionProof } from './blocks/block.ts';
import type { BlockBook } from './blocks/block-book.ts';
import { findKey } from './pipeline/apply/apply-journal.ts';
import { parsePointer, pointerText } from './pipeline/apply/post.ts';
import type { Machine } from './pipeline/machine.ts';
import type { Effect } from './pipeline/outcome.ts';
import { type Checked, refuse } from './refusal.ts';
import { accountId, accountNumber } from './rules/account-id.ts';
import type { JournalEntry, JournalSide } from './rules/journal.ts';
import type { Operation } from './rules/operation.ts';
import { type SentForm, sentText } from './rules/sent-form.ts';
import { locate } from './rules/transaction-id.ts';
import type { EntryPointer } from './state/account-record.ts';
import type { Location } from './state/key-table.ts';
import { CommittedTransaction } from './transactions.ts';

/** A transaction as its block holds it. */
export interface StoredTransaction {
  readonly id: string;
  readonly kind: 'journal' | 'write' | 'account' | 'organization' | 'vault' | 'settings';
  readonly actor: string;
  readonly status: 'committed' | 'rejected';
  readonly credential?: string;
  readonly key?: string;
  readonly sent?: SentForm;
  readonly entries?: readonly JournalEntry[];
  readonly operations?: readonly Operation[];
  readonly effects?: readonly Effect[];
  readonly error?: { readonly code: string; readonly message: string };
  readonly [member: string]: unknown;
}

export interface TransactionView {
  readonly transaction: StoredTransaction;
  readonly createdAt: number;
  readonly blockHeight: number;
}

export interface ProvenTransaction {
  readonly block: Block;
  /** The text that the proof is about. */
  readonly transaction: string;
  readonly proof: TransactionProof;
}

/** What `GET /idempotency/{key}` shows. */
export interface IdempotencyView {
  readonly key: string;
  readonly status: 'committed' | 'rejected';
  /** The body as it was sent, as JSON: numbers may have more digits than a double holds. */
  readonly requestText: string;
  readonly response:
    | CommittedTransaction
    | { readonly ok: false; readonly code: string; readonly message: string };
  readonly createdAt: number;
}

export interface AccountEntry {
  readonly id: string;
  readonly transactionId: string;
  readonly sequence: number;
  readonly type: string;
  readonly asset: string;
  readonly amount: string;
  readonly direction: 'debit' | 'credit';
  readonly counterpart: string;
  readonly balanceAfter: string;
  readonly createdAt: number;
}

export interface AccountPage {
  /** Newest first. */
  readonly entries: readonly AccountEntry[];
  /** Where the next page begins; `null` at the end. */
  readonly cursor: string | null;
  /** Older entries existed and are no longer kept. */
  readonly isTrimmed: boolean;
}

const MAX_PAGE = 500;

/** Reads of what happened, as far back as blocks are kept. */
export class History {
  readonly #machine: Machine;
  readonly #book: BlockBook;
  readonly #now: () => number;

  constructor(machine: Machine, book: BlockBook, now: () => number) {
    this.#machine = machine;
    this.#book = book;
    this.#now = now;
  }

  transaction(id: string): TransactionView | undefined {
    const location = locate(id);
    return location && this.#at(location);
  }

  /** The transaction's text with the header of its block and the proof that it is in it. */
  proof(id: string): ProvenTransaction | undefined {
    const location = locate(id);
    const block = location && this.#book.block(location.height);
    const transaction = block?.texts[location?.position ?? -1];
    if (location === undefined || block === undefined || transaction === undefined)
      return undefined;
    return { block, transaction, proof: proveTransaction(block, location.position) };
  }

  /** What a key was used for, as long as its window lasts; another credential's keys are as good as unused. */
  idempotency(credential: string, key: string): IdempotencyView | undefined {
    const now = Math.max(this.#machine.time, this.#now());
    const location = findKey(this.#machine, credential, key, now);
    if (location === undefined) return undefined;
    const found = this.#at(location);
    if (found === undefined) throw lostUse(location);
    const { transaction, createdAt } = found;
    const entries = transaction.entries ?? [];
    const { error } = transaction;
    return {
      key,
      status: transaction.status,
      requestText: sentText(entries, transaction.sent ?? 0),
      response: error
        ? { ok: false, ...error }
        : new CommittedTransaction(entries, location.height, location.position, createdAt),
      createdAt,
    };
  }

  /** The entries of an account, newest first. */
  accountEntries(id: string, cursor: string | null, limit: number): Checked<AccountPage> {
    const account = this.#machine.accounts.read(accountNumber(id) ?? Number.NaN);
    if (account === undefined) return refuse('ACCOUNT_NOT_FOUND', 'There is no such account.');
    let pointer = cursor === null ? account.last : parsePointer(cursor);
    if (pointer === undefined) return BAD_CURSOR;
    const name = accountId(account.number);
    const entries: AccountEntry[] = [];
    while (pointer.height > 0 && entries.length < Math.min(limit, MAX_PAGE)) {
      if (pointer.height < this.#book.first) {
        return { ok: true, value: { entries, cursor: null, isTrimmed: true } };
      }
      const step = this.#step(name, pointer);
      if (step === undefined) return BAD_CURSOR;
      entries.push(step.entry);
      pointer = step.previous;
    }
    const next = pointerText(pointer);
    return { ok: true, value: { entries, cursor: next === '' ? null : next, isTrimmed: false } };
  }

  #step(account: string, pointer: EntryPointer) {
    const found = this.#at(pointer);
    const effect = found?.transaction.effects?.find(([entry]) => entry === pointer.entry);
    if (found === undefined || effect === undefined) return undefined;
    const { transaction, createdAt } = found;
    const posting = postingOf(transaction, pointer.entry);
    if (posting === undefined) return undefined;
    const { debit, credit, asset, amount, type } = posting;
    const isDebit = debit.account_id === account;
    if (!isDebit && credit.account_id !== account) return undefined;
    const [, debitBalance, debitPrevious, creditBalance, creditPrevious] = effect;
    const entry: AccountEntry = {
      id: `${transaction.id}_${pointer.entry}`,
      transactionId: transaction.id,
      sequence: pointer.entry,
      type,
      asset,
      amount,
      direction: isDebit ? 'debit' : 'credit',
      counterpart: isDebit ? credit.account_id : debit.account_id,
      balanceAfter: isDebit ? debitBalance : creditBalance,
      createdAt,
    };
    const previous = parsePointer(isDebit ? debitPrevious : creditPrevious) ?? NOWHERE;
    return { entry, previous };
  }

  #at({ height, position }: Location): TransactionView | undefined {
    const found = this.#book.transactionAt({ height, position });
    if (found === undefined) return undefined;
    const transaction = JSON.parse(found.text) as StoredTransaction;
    return { transaction, createdAt: found.at, blockHeight: height };
  }
}

/** The key was used, so to say that it is unknown would be wrong. How it was used nobody can tell. */
function lostUse({ height }: Location): StoreError {
  return new StoreError(
    'ONCE_RECORD_UNREADABLE',
    `The key was used in block ${height}, which the ledger's history has lost.`,
  );
}

const NOWHERE: EntryPointer = { height: 0, position: 0, entry: 0 };
const BAD_CURSOR = refuse('INVALID_FIELD', 'The cursor is not one that this account gave.');

interface PostingView {
  readonly type: string;
  readonly asset: string;
  readonly amount: string;
  readonly debit: JournalSide;
  readonly credit: JournalSide;
}

function postingOf(
  { entries, operations }: StoredTransaction,
  entry: number,
): PostingView | undefined {
  if (entries !== undefined) return entries[entry - 1];
  const operation = operations?.[entry - 1];
  return operation?.op === 'post' ? { ...operation, type: 'POST' } : undefined;
}
