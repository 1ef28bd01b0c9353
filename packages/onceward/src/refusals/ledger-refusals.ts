import type { Happened, RefusalKind, Retry } from './refusals.ts';

/** A refusal of the ledger, under the one name that all its doors give it. */
export interface LedgerRefusalKind extends Omit<RefusalKind, 'code'> {
  /** gRPC answers with a status (`INVALID_ARGUMENT`, `NOT_FOUND`) instead of an error inside the response. */
  readonly isMalformed: boolean;
}

/**
 * Everything that the ledger refuses with, for both sides of the wire. In a file of its own, so that a client without
 * a ledger does not bundle it. Stable.
 */
export const LEDGER_REFUSALS = {
  IDEMPOTENCY_KEY_REQUIRED: malformed(400),
  IDEMPOTENCY_KEY_INVALID: malformed(400),
  INVALID_FIELD: malformed(400),
  INVALID_SEQUENCE: malformed(400),
  INVALID_BALANCE_POLICY: malformed(400),
  ACTOR_NOT_ALLOWED: malformed(400),
  TOO_LARGE: malformed(400),
  ACCOUNT_NOT_FOUND: malformed(404),
  TRANSACTION_NOT_FOUND: malformed(404),
  IDEMPOTENCY_KEY_NOT_FOUND: malformed(404),
  ORGANIZATION_NOT_FOUND: malformed(404),
  VAULT_NOT_FOUND: malformed(404),
  BLOCK_NOT_FOUND: malformed(404),
  // A duplicate is about a key, not a request: whether this request happened is in the key's record.
  DUPLICATE_IDEMPOTENCY_KEY: refused(409, 'never', 'unknown'),
  // When it was first sent, the key may have been used and forgotten since.
  KEY_EXPIRED: refused(412, 'never', 'unknown'),
  BATCH_ROLLED_BACK: refused(409, 'same_key', 'no'),
  INSUFFICIENT_FUNDS: refused(422, 'new_key', 'no'),
  BALANCE_OUT_OF_RANGE: refused(422, 'new_key', 'no'),
  OVERLOADED: refused(503, 'same_key', 'no'),
  // The ledger has stopped. Where it knows that nothing was written it says so.
  LEDGER_UNAVAILABLE: refused(503, 'same_key', 'unknown'),
  SEQUENCE_GAP: refused(409, 'never', 'no'),
  SEQUENCE_EXHAUSTED: refused(409, 'never', 'no'),
  ALREADY_COMMITTED: refused(409, 'never', 'unknown'),
  IDEMPOTENCY_KEY_REUSED: refused(422, 'new_key', 'no'),
  KEY_EXISTS: refused(409, 'new_key', 'no'),
  KEY_NOT_FOUND: refused(409, 'new_key', 'no'),
  VERSION_MISMATCH: refused(409, 'new_key', 'no'),
  VALUE_MISMATCH: refused(409, 'new_key', 'no'),
} as const satisfies Readonly<Record<string, LedgerRefusalKind>>;

export type LedgerRefusalCode = keyof typeof LEDGER_REFUSALS;

function malformed(status: 400 | 404) {
  return { status, retry: 'never', happened: 'no', isMalformed: true } as const;
}

function refused<R extends Retry, H extends Happened>(status: number, retry: R, happened: H) {
  return { status, retry, happened, isMalformed: false } as const;
}
