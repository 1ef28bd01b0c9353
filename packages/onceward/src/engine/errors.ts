import type { Retry } from '../refusals/refusals.ts';
import type { DurationMs } from './units.ts';

export type { Retry };

/** Every error that Onceward raises, with the advice that goes with it. Codes are stable. */
export const ERRORS = {
  ONCE_INVALID_INPUT: { retry: 'never', title: 'An argument is not valid' },
  ONCE_INVALID_CONFIG: { retry: 'never', title: 'A setting is not valid' },
  ONCE_MISMATCH: { retry: 'new_key', title: 'The key was used for another request' },
  ONCE_IN_PROGRESS: { retry: 'same_key', title: 'The operation is still running' },
  ONCE_IN_DOUBT: { retry: 'same_key', title: 'Whether the operation happened is not known' },
  ONCE_EXPIRED: { retry: 'never', title: 'The key was first sent longer ago than keys are kept' },
  ONCE_OVER_QUOTA: { retry: 'same_key', title: 'Too many operations are running here' },
  ONCE_DEADLINE: { retry: 'same_key', title: 'The deadline passed before the effect began' },
  ONCE_FENCE_LOST: { retry: 'same_key', title: 'Another attempt has taken over' },
  ONCE_REJECTED: { retry: 'never', title: 'The operation was rejected' },
  ONCE_STORE_UNAVAILABLE: { retry: 'same_key', title: 'The store did not answer' },
  ONCE_STORE_FAILED: { retry: 'never', title: 'The store has stopped accepting writes' },
  ONCE_STORE_LOCKED: { retry: 'never', title: 'Another process has the store open' },
  ONCE_STORE_VERSION: { retry: 'never', title: 'The store was written by another version' },
  ONCE_TOO_LARGE: { retry: 'never', title: 'The record is larger than the store accepts' },
  ONCE_ROLLED_BACK: { retry: 'same_key', title: 'The transaction was rolled back' },
  ONCE_NOT_RETAINED: { retry: 'never', title: 'The operation happened, its result was not kept' },
  ONCE_RECORD_UNREADABLE: { retry: 'never', title: 'A stored record cannot be read' },
} as const satisfies Record<string, { retry: Retry; title: string }>;

export type ErrorCode = keyof typeof ERRORS;

export interface ErrorDetails {
  readonly cause?: unknown;
  readonly retryAfterMs?: DurationMs;
}

export class OncewardError extends Error {
  override readonly name: string = 'OncewardError';
  readonly code: ErrorCode;
  readonly retry: Retry;
  readonly retryAfterMs: DurationMs | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.retry = ERRORS[code].retry;
    this.retryAfterMs = details.retryAfterMs;
  }
}

/**
 * A store call that failed. Unless `applied` is `'no'`, the write may have happened or may yet happen: the
 * engine reads back before it decides anything.
 */
export class StoreError extends OncewardError {
  override readonly name = 'StoreError';
  readonly applied: 'no' | 'unknown';

  constructor(
    code: ErrorCode,
    message: string,
    details: ErrorDetails & { readonly applied?: 'no' | 'unknown' } = {},
  ) {
    super(code, message, details);
    this.applied = details.applied ?? 'unknown';
  }
}

export function isStoreError(error: unknown): boolean {
  return error instanceof OncewardError && error.code.startsWith('ONCE_STORE_');
}
