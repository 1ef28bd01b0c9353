import type { Block } from './blocks/block.ts';
import type { LedgerCounters } from './counters.ts';
import {
  admitAccount,
  admitTransaction,
  type Caller,
  checkCaller,
  checkTransactionKey,
} from './pipeline/admit.ts';
import { InFlightKeys } from './pipeline/in-flight.ts';
import type { Machine } from './pipeline/machine.ts';
import type { Outcome } from './pipeline/outcome.ts';
import type { Pipeline } from './pipeline/pipeline.ts';
import { type Refusal, refuse } from './refusal.ts';
import type { JournalEntry } from './rules/journal.ts';
import type { JournalRequest } from './rules/request.ts';
import { transactionId } from './rules/transaction-id.ts';

export interface CommittedTransaction {
  readonly ok: true;
  readonly transactionId: string;
  readonly journalEntries: readonly (JournalEntry & { readonly id: string })[];
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly blockHeight: number;
}

export type TransactResult = CommittedTransaction | Refusal;

export type CreateAccountResult = { readonly ok: true; readonly id: string } | Refusal;

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
  readonly #inFlight = new InFlightKeys();

  constructor(pipeline: Pipeline, machine: Machine, counters: LedgerCounters) {
    this.#pipeline = pipeline;
    this.#machine = machine;
    this.#counters = counters;
  }

  transact(caller: Caller, key: string | undefined, body: unknown): Promise<TransactResult> {
    // A key that is in flight has passed every check of its own, so it is looked for first.
    if (key !== undefined && this.#inFlight.has(caller.credential, key)) {
      this.#counters.duplicates.in_flight += 1;
      return Promise.resolve(IN_FLIGHT);
    }
    const wrong = checkTransactionKey(key) ?? checkCaller(caller);
    if (wrong !== undefined) return this.#refuse(wrong);
    if (this.#pipeline.isFull) return this.#refuse(OVERLOADED);
    const admitted = admitTransaction(this.#machine, caller, key as string, body);
    if (!admitted.ok) return this.#refuse(admitted);
    return this.#run(admitted.value);
  }

  createAccount(caller: Caller, body: unknown): Promise<CreateAccountResult> {
    const wrong = checkCaller(caller);
    if (wrong !== undefined) return this.#refuse(wrong);
    if (this.#pipeline.isFull) return this.#refuse(OVERLOADED);
    const admitted = admitAccount(caller, body);
    if (!admitted.ok) return this.#refuse(admitted);
    return new Promise((resolve, reject) => {
      this.#pipeline.submit('writes', admitted.value, {
        settle: (outcome) => resolve(answerCreation(outcome)),
        fail: reject,
      });
    });
  }

  #refuse(refusal: Refusal): Promise<Refusal> {
    this.#counters.refused += 1;
    return Promise.resolve(refusal);
  }

  #run(request: JournalRequest): Promise<TransactResult> {
    const { credential, key } = request;
    return new Promise((resolve, reject) => {
      this.#pipeline.submit('transactions', request, {
        settle: (outcome, block) => {
          this.#inFlight.remove(credential, key);
          resolve(this.#answer(request, outcome, block));
        },
        fail: (error) => {
          this.#inFlight.remove(credential, key);
          reject(error);
        },
      });
      this.#inFlight.add(credential, key);
    });
  }

  #answer(request: JournalRequest, outcome: Outcome, block: Block): TransactResult {
    if (outcome.did === 'refuse' || outcome.did === 'reject') {
      this.#count(outcome.refusal, outcome.did === 'reject');
      return outcome.refusal;
    }
    this.#counters.transactions += 1;
    const { height, at } = block.header;
    return committedAnswer(request.entries, height, outcome.position, at);
  }

  #count({ layer, code }: Refusal, isRejected: boolean): void {
    if (layer !== undefined) this.#counters.duplicates[layer] += 1;
    else if (code === 'BATCH_ROLLED_BACK') this.#counters.rolledBack += 1;
    else if (isRejected) this.#counters.rejected += 1;
    else this.#counters.refused += 1;
  }
}

export function committedAnswer(
  entries: readonly JournalEntry[],
  height: number,
  position: number,
  at: number,
): CommittedTransaction {
  const id = transactionId({ height, position });
  return {
    ok: true,
    transactionId: id,
    journalEntries: entries.map((entry) => ({ id: `${id}_${entry.sequence}`, ...entry })),
    createdAt: at,
    blockHeight: height,
  };
}

export function answerCreation(outcome: Outcome): { ok: true; id: string } | Refusal {
  if (outcome.did === 'refuse') return outcome.refusal;
  if (outcome.did !== 'create') throw new Error(`A creation ended as ${outcome.did}.`);
  return { ok: true, id: outcome.id };
}
