import { type ErrorCode, OncewardError } from 'onceward';
import { PROBLEM_TYPE_PREFIX } from 'onceward/http';

/** What the server itself refuses with, beside the problems of the doors. Names are stable. */
const KINDS = {
  'invalid-request': { status: 400, title: 'The request is not valid' },
  unauthorized: { status: 401, title: 'A credential is required' },
  forbidden: { status: 403, title: 'The credential does not allow this' },
  'not-found': { status: 404, title: 'There is nothing here' },
  'request-timeout': { status: 408, title: 'The request did not arrive in time' },
  'fence-lost': { status: 409, title: 'Another attempt has taken over' },
  'outcome-unknown': { status: 409, title: 'Whether the operation happened is not known' },
  'wrong-state': { status: 409, title: 'The record is not in the state this needs' },
  'limit-reached': { status: 409, title: 'No more of these are kept' },
  changed: { status: 409, title: 'The record changed in the meantime' },
  'body-too-large': { status: 413, title: 'The body is too large' },
  'uri-too-long': { status: 414, title: 'The address is too long' },
  'unsupported-media-type': { status: 415, title: 'The body is not of a kind that is read here' },
  'expectation-failed': { status: 417, title: 'The expectation cannot be met' },
  'misdirected-request': { status: 421, title: 'The request is meant for another host' },
  unprocessable: { status: 422, title: 'The record cannot be changed in this way' },
  busy: { status: 429, title: 'Too much is being asked at once' },
  'over-quota': { status: 429, title: 'Too many operations are open' },
  'headers-too-large': { status: 431, title: 'The headers are too large' },
  'internal-error': { status: 500, title: 'Something went wrong here' },
  'store-unavailable': { status: 503, title: 'The store did not answer' },
  closing: { status: 503, title: 'The server is closing' },
} as const;

export type ProblemKind = keyof typeof KINDS;

export interface ProblemBody {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
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
  /** Further members of the problem. */
  readonly members?: Readonly<Record<string, string>>;
}

/** Thrown by a route; the server's error handler sends it. */
export class Problem extends Error {
  override readonly name = 'Problem';
  readonly kind: ProblemKind;
  readonly errors: readonly FieldError[];
  readonly retryAfterSeconds: number | undefined;
  readonly #members: Readonly<Record<string, string>>;

  constructor(kind: ProblemKind, detail: string, more: More = {}) {
    super(detail);
    this.kind = kind;
    this.errors = more.errors ?? [];
    this.retryAfterSeconds = more.retryAfterSeconds;
    this.#members = more.members ?? {};
  }

  get status(): number {
    return KINDS[this.kind].status;
  }

  /** The same kind for envelopes whose codes are in capitals. */
  get envelopeCode(): string {
    if (this.kind === 'invalid-request') return 'INVALID_FIELD';
    return this.kind.replaceAll('-', '_').toUpperCase();
  }

  toBody(): ProblemBody {
    const { status, title } = KINDS[this.kind];
    const detail = this.message;
    const errors = this.errors.length === 0 ? {} : { errors: this.errors };
    const type = PROBLEM_TYPE_PREFIX + this.kind;
    return { type, title, status, detail, ...this.#members, ...errors };
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
    // The store's own words name files and hosts, which are nobody's business but the operator's.
    return new Problem(kind, 'the store did not answer; try again', { retryAfterSeconds: 1 });
  }
  return new Problem(kind, error.message);
}
