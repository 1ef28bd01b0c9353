import { LEDGER_REFUSALS, type LedgerRefusalCode, type Retry } from 'onceward/refusals';
import type { BlockHeader, TransactionProof } from './blocks/block.ts';

/** Every way in which the ledger says no: the table that both sides of the wire read. */
export const REFUSALS = LEDGER_REFUSALS;

export type RefusalCode = LedgerRefusalCode;

/** Which of the three layers found a duplicate: before the queue, in the same batch, or among what is committed. */
export type DuplicateLayer = 'in_flight' | 'batch' | 'database';

/** That a write is in a block: the text and what leads from it to the header. */
export interface WriteProof {
  readonly blockHeader: BlockHeader;
  readonly transaction: string;
  readonly txProof: TransactionProof;
}

/** An expected no, as a value. The members after `message` are there when the code gives them a meaning. */
export interface Refusal {
  readonly ok: false;
  readonly code: RefusalCode;
  readonly message: string;
  readonly layer?: DuplicateLayer;
  readonly lastCommittedSequence?: bigint;
  readonly assignedSequence?: bigint;
  readonly committedTxId?: string;
  readonly committedBlockHeight?: number;
  /** The entity that a condition failed on, and its version as it is. */
  readonly key?: string;
  readonly currentVersion?: number;
  /** Of the write that is committed, if it was asked for and its block is kept. */
  readonly proof?: WriteProof;
}

/** What is in flight may yet be undone with its batch, so its duplicate may ask again under the same key. */
export function retryOf({ code, layer }: Pick<Refusal, 'code' | 'layer'>): Retry {
  return layer === 'in_flight' ? 'same_key' : REFUSALS[code].retry;
}

export function refuse(
  code: RefusalCode,
  message: string,
  more: Omit<Partial<Refusal>, 'ok' | 'code' | 'message'> = {},
): Refusal {
  return { ok: false, code, message, ...more };
}

export type Checked<T> = { readonly ok: true; readonly value: T } | Refusal;
