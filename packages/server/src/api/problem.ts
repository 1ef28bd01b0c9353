import { type ErrorCode, OncewardError, StoreError } from 'onceward';
import { PROBLEM_TYPE_PREFIX, type ProblemName, REFUSALS, type RefusalKind } from 'onceward/http';
import { maskKey } from 'onceward/keys';

/**
 * What the server itself refuses with, beside the problems of the doors. Words that doors have too are read from their
 * table. Names are stable.
 */
const KINDS = {
  'invalid-request': own(400, 'INVALID_FIELD', 'never', 'no', 'The request is not valid'),
  'first-sent-invalid': shared(
    'first-sent-invalid',
    'When the request was first sent cannot be read',
  ),
  unauthorized: shared('unauthorized', 'A credential is required'),
  forbidden: shared('forbidden', 'The credential does not allow this'),
  'not-found': own(404, 'NOT_FOUND', 'never', 'no', 'There is nothing here'),
  'request-timeout': own(
    408,
    'REQUEST_TIMEOUT',
    'same_key',
    'no',
    'The request did not arrive in time',
  ),
  // The writer is late, and what the attempt that has taken over does is not known here.
  'fence-lost': own(409, 'FENCE_LOST', 'same_key', 'unknown', 'Another attempt has taken over'),
  'outcome-unknown': shared('outcome-unknown', 'Whether the operation happened is not known'),
  'wrong-state': own(
    409,
    'WRONG_STATE',
    'never',
    'no',
    'The record is not in the state this needs',
  ),
  'limit-reached': own(409, 'LIMIT_REACHED', 'never', 'no', 'No more of these are kept'),
  changed: own(409, 'CHANGED', 'same_key', 'no', 'The record changed in the meantime'),
  'body-too-large': shared('body-too-large', 'The body is too large'),
  'uri-too-long': own(414, 'URI_TOO_LONG', 'never', 'no', 'The address is too long'),
  'unsupported-media-type': own(
    415,
    'UNSUPPORTED_MEDIA_TYPE',
    'never',
    'no',
    'The body is not of a kind that is read here',
  ),
  'expectation-failed': own(
    417,
    'EXPECTATION_FAILED',
    'never',
    'no',
    'The expectation cannot be met',
  ),
  'misdirected-request': own(
    421,
    'MISDIRECTED_REQUEST',
    'never',
    'no',
    'The request is meant for another host',
  ),
  unprocessable: own(
    422,
    'UNPROCESSABLE',
    'never',
    'no',
    'The record cannot be changed in this way',
  ),
  busy: own(429, 'BUSY', 'same_key', 'no', 'Too much is being asked at once'),
  'over-quota': shared('over-quota', 'Too many operations are open'),
  'headers-too-large': own(431, 'HEADERS_TOO_LARGE', 'never', 'no', 'The headers are too large'),
  'internal-error': own(500, 'INTERNAL_ERROR', 'same_key', 'unknown', 'Something went wrong here'),
  'store-unavailable': shared('store-unavailable', 'The store did not answer'),
  closing: own(503, 'CLOSING', 'same_key', 'no', 'The server is closing'),
} as const satisfies Record<string, Kind>;

type Kind = RefusalKind & { readonly title: string };

function own(
  status: number,
  code: string,
  retry: RefusalKind['retry'],
  happened: RefusalKind['happened'],
  title: string,
): Kind {
  return { status, code, retry, happened, title };
}

function shared(name: ProblemName, title: string): Kind {
  return { ...REFUSALS[name], title };
}

export type ProblemKind = keyof typeof KINDS;
export const PROBLEM_KINDS = Object.keys(KINDS) as ProblemKind[];

export interface ProblemBody {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly retry: RefusalKind['retry'];
  readonly happened: RefusalKind['happened'];
  /** Where a field is wrong: which, and why. */
  readonly errors?: readonly FieldError[];
}

export interface FieldError {
  readonly field: string;
  readonly message: string;
}

interface More {
  readonly errors?: readonly FieldError[];
  readonly retryAfterSeconds?: number;
  /** Where it is known better than from the kind. */
  readonly happened?: RefusalKind['happened'];
  /** Shown masked. */
  readonly key?: string;
}

/** Thrown by a route; the server's error handler sends it. */
export class Problem extends Error {
  override readonly name = 'Problem';
  readonly kind: ProblemKind;
  readonly errors: readonly FieldError[];
  readonly retryAfterSeconds: number | undefined;
  readonly #happened: RefusalKind['happened'];
  readonly #key: string | undefined;

  constructor(kind: ProblemKind, detail: string, more: More = {}) {
    super(detail);
    this.kind = kind;
    this.errors = more.errors ?? [];
    this.retryAfterSeconds = more.retryAfterSeconds;
    this.#happened = more.happened ?? KINDS[kind].happened;
    this.#key = more.key;
  }

  get status(): number {
    return KINDS[this.kind].status;
  }

  /** For envelopes, whose codes are in capitals. */
  toEnvelope(): Pick<RefusalKind, 'code' | 'retry' | 'happened'> & { readonly message: string } {
    const { code, retry } = KINDS[this.kind];
    return { code, message: this.message, retry, happened: this.#happened };
  }

  toBody(): ProblemBody {
    const { status, title, retry } = KINDS[this.kind];
    const hint = this.#key === undefined ? {} : { key_hint: maskKey(this.#key) };
    const errors = this.errors.length === 0 ? {} : { errors: this.errors };
    return {
      type: PROBLEM_TYPE_PREFIX + this.kind,
      title,
      status,
      detail: this.message,
      ...hint,
      retry,
      happened: this.#happened,
      ...errors,
    };
  }
}

const FROM_CODES: Partial<Record<ErrorCode, ProblemKind>> = {
  ONCE_INVALID_INPUT: 'invalid-request',
  ONCE_TOO_LARGE: 'body-too-large',
  ONCE_IN_DOUBT: 'outcome-unknown',
  ONCE_RECORD_UNREADABLE: 'unprocessable',
  ONCE_STORE_UNAVAILABLE: 'store-unavailable',
  ONCE_STORE_FAILED: 'store-unavailable',
};

/** The engine's own errors speak to callers; every other one stays in the log. */
export function problemOf(error: unknown): Problem | null {
  if (error instanceof Problem) return error;
  if (!(error instanceof OncewardError)) return null;
  const kind = FROM_CODES[error.code];
  if (kind === undefined) return null;
  if (kind === 'store-unavailable') {
    // The store's own words name files and hosts, which only the operator may see.
    const happened = error instanceof StoreError && error.applied === 'no' ? 'no' : 'unknown';
    const more = { retryAfterSeconds: 1, happened } as const;
    return new Problem(kind, 'the store did not answer; try again', more);
  }
  return new Problem(kind, error.message);
}
