import type { BlockHeader, TransactionProof } from './blocks/block.ts';

/** What a caller should do next: send again under the same key, under a new one, or not at all. */
export type Advice = 'same_key' | 'new_key' | 'never';

/**
 * Every way in which the ledger says no. `status` is for HTTP; `malformed` marks what a gRPC door answers with
 * a status of its own (`INVALID_ARGUMENT`, `NOT_FOUND`) instead of an error inside a successful response.
 */
export const REFUSALS = {
  IDEMPOTENCY_KEY_REQUIRED: { status: 400, advice: 'never', malformed: true },
  IDEMPOTENCY_KEY_INVALID: { status: 400, advice: 'never', malformed: true },
  INVALID_FIELD: { status: 400, advice: 'never', malformed: true },
  INVALID_SEQUENCE: { status: 400, advice: 'never', malformed: true },
  INVALID_BALANCE_POLICY: { status: 400, advice: 'never', malformed: true },
  ACTOR_NOT_ALLOWED: { status: 400, advice: 'never', malformed: true },
  TOO_LARGE: { status: 400, advice: 'never', malformed: true },
  ACCOUNT_NOT_FOUND: { status: 404, advice: 'never', malformed: true },
  TRANSACTION_NOT_FOUND: { status: 404, advice: 'never', malformed: true },
  IDEMPOTENCY_KEY_NOT_FOUND: { status: 404, advice: 'never', malformed: true },
  ORGANIZATION_NOT_FOUND: { status: 404, advice: 'never', malformed: true },
  VAULT_NOT_FOUND: { status: 404, advice: 'never', malformed: true },
  BLOCK_NOT_FOUND: { status: 404, advice: 'never', malformed: true },
  DUPLICATE_IDEMPOTENCY_KEY: { status: 409, advice: 'never', malformed: false },
  BATCH_ROLLED_BACK: { status: 409, advice: 'same_key', malformed: false },
  INSUFFICIENT_FUNDS: { status: 422, advice: 'new_key', malformed: false },
  BALANCE_OUT_OF_RANGE: { status: 422, advice: 'new_key', malformed: false },
  OVERLOADED: { status: 503, advice: 'same_key', malformed: false },
  SEQUENCE_GAP: { status: 409, advice: 'never', malformed: false },
  SEQUENCE_EXHAUSTED: { status: 409, advice: 'never', malformed: false },
  ALREADY_COMMITTED: { status: 409, advice: 'never', malformed: false },
  IDEMPOTENCY_KEY_REUSED: { status: 422, advice: 'new_key', malformed: false },
  KEY_EXISTS: { status: 409, advice: 'new_key', malformed: false },
  KEY_NOT_FOUND: { status: 409, advice: 'new_key', malformed: false },
  VERSION_MISMATCH: { status: 409, advice: 'new_key', malformed: false },
  VALUE_MISMATCH: { status: 409, advice: 'new_key', malformed: false },
} as const satisfies Record<string, { status: number; advice: Advice; malformed: boolean }>;

export type RefusalCode = keyof typeof REFUSALS;

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

/**
 * What became of what was asked. A duplicate is told of a key, not of a request: whether this very one has happened,
 * `GET /idempotency/{key}` tells.
 */
export function happenedOf({ code }: Pick<Refusal, 'code'>): 'no' | 'unknown' {
  const isOfAnEarlierOne = code === 'DUPLICATE_IDEMPOTENCY_KEY' || code === 'ALREADY_COMMITTED';
  return isOfAnEarlierOne ? 'unknown' : 'no';
}

/** What is in flight may yet be undone with its batch, so its duplicate may ask again under the same key. */
export function adviceOf({ code, layer }: Refusal): Advice {
  return layer === 'in_flight' ? 'same_key' : REFUSALS[code].advice;
}

export function refuse(
  code: RefusalCode,
  message: string,
  more: Omit<Partial<Refusal>, 'ok' | 'code' | 'message'> = {},
): Refusal {
  return { ok: false, code, message, ...more };
}

export type Checked<T> = { readonly ok: true; readonly value: T } | Refusal;
