import type { Block } from './blocks/block.ts';
import type { LedgerCounters } from './counters.ts';
import {
  admitAccount,
  admitTransaction,
  type Caller,
  checkCaller,
  checkTransactionKey,
} from './pipeline/admit.ts';
import { findCreation } from './pipeline/apply/apply-creation.ts';
import { duplicateOf, findKey } from './pipeline/apply/apply-journal.ts';
import { KEY_EXPIRED, type KeyKind, mayBeForgotten } from './pipeline/first-sent.ts';
import { InFlightKeys } from './pipeline/in-flight.ts';
import type { Machine } from './pipeline/machine.ts';
import type { Outcome } from './pipeline/outcome.ts';
import type { Pipeline } from './pipeline/pipeline.ts';
import type { TicketEnd } from './pipeline/ticket.ts';
import { type Refusal, refuse } from './refusal.ts';
import type { JournalEntry } from './rules/journal.ts';
import type { JournalRequest } from './rules/request.ts';
import { transactionId } from './rules/transaction-id.ts';

/** A class for the reason that `Ticket` is one. */
export class CommittedTransaction {
  readonly ok = true;
  readonly transactionId: string;
  readonly journalEntries: readonly (JournalEntry & { readonly id: string })[];
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly blockHeight: number;

  constructor(entries: readonly JournalEntry[], height: number, position: number, at: number) {
    const id = transactionId({ height, position });
    this.transactionId = id;
    this.journalEntries = entries.map((entry) => ({ id: `${id}_${entry.sequence}`, ...entry }));
    this.createdAt = at;
    this.blockHeight = height;
  }
}

export type TransactResult = CommittedTransaction | Refusal;

export interface CreatedAccount {
  readonly ok: true;
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

export type CreateAccountResult = CreatedAccount | Refusal;

const IN_FLIGHT = refuse(
  'DUPLICATE_IDEMPOTENCY_KEY',
  'A transaction with this idempotency key is being processed right now.',
  { layer: 'in_flight' },
);

export const OVERLOADED = refuse(
  'OVERLOADED',
  'Too many requests are in flight. Nothing was stored; try again in a moment with the same key.',
);

/** The admission and the answers of transactions with idempotency keys. */
export class Transactions {
  readonly #pipeline: Pipeline;
  readonly #machine: Machine;
  readonly #counters: LedgerCounters;
  readonly #now: () => number;
  readonly #inFlight = new InFlightKeys();

  constructor(pipeline: Pipeline, machine: Machine, counters: LedgerCounters, now: () => number) {
    this.#pipeline = pipeline;
    this.#machine = machine;
    this.#counters = counters;
    this.#now = now;
  }

  transact(
    caller: Caller,
    key: string | undefined,
    body: unknown,
    firstSentAt?: number,
  ): Promise<TransactResult> {
    // A key that is in flight has passed every check of its own, so it is checked first.
    if (key !== undefined && this.#inFlight.has(caller.credential, key)) {
      this.#counters.duplicates.in_flight += 1;
      return Promise.resolve(IN_FLIGHT);
    }
    const wrong = checkTransactionKey(key) ?? checkCaller(caller);
    if (wrong !== undefined) return this.#refuse(wrong);
    if (this.#pipeline.isFull) return this.#refuse(OVERLOADED);
    const admitted = admitTransaction(this.#machine, caller, key as string, body, firstSentAt);
    if (!admitted.ok) return this.#refuse(admitted);
    if (this.#mayBeForgotten('transactions', firstSentAt)) {
      return this.#refuseLate(admitted.value);
    }
    return this.#run(admitted.value);
  }

  createAccount(
    caller: Caller,
    body: unknown,
    key?: string,
    firstSentAt?: number,
  ): Promise<CreateAccountResult> {
    const wrong = checkCaller(caller);
    if (wrong !== undefined) return this.#refuse(wrong);
    if (this.#pipeline.isFull) return this.#refuse(OVERLOADED);
    const admitted = admitAccount(caller, body, key, firstSentAt);
    if (!admitted.ok) return this.#refuse(admitted);
    const known = findCreation(this.#machine, admitted.value);
    if (known !== undefined) return Promise.resolve(answerAccount(known, this.#machine.time));
    if (key !== undefined && this.#mayBeForgotten('writes', firstSentAt)) {
      return this.#refuse(KEY_EXPIRED);
    }
    return new Promise((resolve, reject) => {
      this.#pipeline.submit('writes', admitted.value, {
        settle: (outcome, { header }) => resolve(answerAccount(outcome, header.at)),
        fail: reject,
      });
    });
  }

  #mayBeForgotten(kind: KeyKind, firstSentAt: number | undefined): boolean {
    const now = Math.max(this.#machine.time, this.#now());
    return mayBeForgotten(this.#machine, kind, firstSentAt, now);
  }

  /** Answered at once: by the time it were applied, a key that is known now could be forgotten. */
  #refuseLate({ credential, key }: JournalRequest): Promise<Refusal> {
    const used = findKey(this.#machine, credential, key, this.#machine.time);
    if (used === undefined) return this.#refuse(KEY_EXPIRED);
    this.#counters.duplicates.database += 1;
    return Promise.resolve(duplicateOf(used));
  }

  #refuse(refusal: Refusal): Promise<Refusal> {
    this.#counters.refused += 1;
    return Promise.resolve(refusal);
  }

  #run(request: JournalRequest): Promise<TransactResult> {
    return new Promise((resolve, reject) => {
      this.#pipeline.submit('transactions', request, new End(this, request, resolve, reject));
      this.#inFlight.add(request.credential, request.key);
    });
  }

  /** The key is free again, and the answer known. */
  answer(request: JournalRequest, outcome: Outcome, block: Block): TransactResult {
    this.release(request);
    if (outcome.did === 'refuse' || outcome.did === 'reject') {
      this.#count(outcome.refusal, outcome.did === 'reject');
      return outcome.refusal;
    }
    if (outcome.did !== 'post') throw new Error(`A transaction ended as ${outcome.did}.`);
    this.#counters.transactions += 1;
    const { height, at } = block.header;
    return new CommittedTransaction(request.entries, height, outcome.position, at);
  }

  release({ credential, key }: JournalRequest): void {
    this.#inFlight.remove(credential, key);
  }

  #count({ layer, code }: Refusal, isRejected: boolean): void {
    if (layer !== undefined) this.#counters.duplicates[layer] += 1;
    else if (code === 'BATCH_ROLLED_BACK') this.#counters.rolledBack += 1;
    else if (isRejected) this.#counters.rejected += 1;
    else this.#counters.refused += 1;
  }
}

/** What follows on a transaction. */
class End implements TicketEnd {
  readonly #transactions: Transactions;
  readonly #request: JournalRequest;
  readonly #resolve: (result: TransactResult) => void;
  readonly #reject: (error: unknown) => void;

  constructor(
    transactions: Transactions,
    request: JournalRequest,
    resolve: (result: TransactResult) => void,
    reject: (error: unknown) => void,
  ) {
    this.#transactions = transactions;
    this.#request = request;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  settle(outcome: Outcome, block: Block): void {
    this.#resolve(this.#transactions.answer(this.#request, outcome, block));
  }

  fail(error: unknown): void {
    this.#transactions.release(this.#request);
    this.#reject(error);
  }
}

function answerAccount(outcome: Outcome, at: number): CreateAccountResult {
  const answer = answerCreation(outcome);
  if (!answer.ok) return answer;
  return { ...answer, createdAt: outcome.did === 'recall' ? outcome.at : at };
}

export function answerCreation(outcome: Outcome): { ok: true; id: string } | Refusal {
  if (outcome.did === 'refuse') return outcome.refusal;
  if (outcome.did !== 'create' && outcome.did !== 'recall') {
    throw new Error(`A creation ended as ${outcome.did}.`);
  }
  return { ok: true, id: outcome.id };
}
