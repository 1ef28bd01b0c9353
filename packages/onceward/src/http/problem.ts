import type { Retry } from '../engine/errors.ts';
import type { RefusalReason } from '../engine/operation.ts';
import type { ProfileName } from '../engine/profiles.ts';
import type { DurationMs } from '../engine/units.ts';
import { maskKey } from '../keys/mask.ts';
import type { HttpAnswer } from './answer.ts';

interface Kind {
  readonly status: number;
  readonly retry: Retry;
  readonly title: string;
  /** What the `sync` envelope calls it. */
  readonly code: string;
}

/** Everything the doors refuse with. The name is the end of the problem's type, and stable. */
export const PROBLEMS = {
  'key-missing': {
    status: 400,
    retry: 'new_key',
    title: 'An idempotency key is required',
    code: 'IDEMPOTENCY_KEY_REQUIRED',
  },
  'key-invalid': {
    status: 400,
    retry: 'new_key',
    title: 'The idempotency key is not valid',
    code: 'IDEMPOTENCY_KEY_INVALID',
  },
  'key-conflict': {
    status: 400,
    retry: 'new_key',
    title: 'The request names more than one idempotency key',
    code: 'IDEMPOTENCY_KEY_CONFLICT',
  },
  'body-not-canonical': {
    status: 400,
    retry: 'new_key',
    title: 'The body cannot be compared',
    code: 'BODY_NOT_CANONICAL',
  },
  'body-too-large': {
    status: 413,
    retry: 'new_key',
    title: 'The body is too large',
    code: 'BODY_TOO_LARGE',
  },
  'payload-mismatch': {
    status: 422,
    retry: 'new_key',
    title: 'The key was used for another request',
    code: 'IDEMPOTENCY_KEY_REUSED',
  },
  'in-progress': {
    status: 409,
    retry: 'same_key',
    title: 'The request is still being processed',
    code: 'CONCURRENT_REQUEST',
  },
  'outcome-unknown': {
    status: 409,
    retry: 'never',
    title: 'Whether the operation happened is not known',
    code: 'OUTCOME_UNKNOWN',
  },
  'response-not-retained': {
    status: 409,
    retry: 'never',
    title: 'The request was executed, its response was not kept',
    code: 'RESPONSE_NOT_RETAINED',
  },
  'operation-failed': {
    status: 500,
    retry: 'new_key',
    title: 'The operation failed',
    code: 'OPERATION_FAILED',
  },
  'store-unavailable': {
    status: 503,
    retry: 'same_key',
    title: 'The record of this key cannot be reached',
    code: 'STORE_UNAVAILABLE',
  },
  'over-quota': {
    status: 429,
    retry: 'same_key',
    title: 'Too many operations are running',
    code: 'OVER_QUOTA',
  },
} as const satisfies Record<string, Kind>;

export type ProblemName = keyof typeof PROBLEMS;

/** Names a problem for ever; nothing need be served there. */
export const PROBLEM_TYPE_PREFIX = 'https://onceward.dev/problems/';

export interface ProblemDetails {
  readonly detail: string;
  /** Shown masked. */
  readonly key?: string;
  readonly retryAfterMs?: DurationMs;
  readonly originalStatus?: number;
}

export function problemAnswer(
  name: ProblemName,
  profile: ProfileName,
  details: ProblemDetails,
): HttpAnswer {
  const { status } = PROBLEMS[name];
  const headers = [
    'content-type',
    profile === 'sync' ? 'application/json; charset=utf-8' : 'application/problem+json',
    'cache-control',
    'no-store',
    'idempotency-replayed',
    'false',
  ];
  if (details.retryAfterMs !== undefined) {
    headers.push('retry-after', String(Math.max(1, Math.ceil(details.retryAfterMs / 1_000))));
  }
  const members = profile === 'sync' ? envelope(name, details) : problem(name, details);
  return { status, headers, body: Buffer.from(JSON.stringify(members)) };
}

function problem(name: ProblemName, details: ProblemDetails): Record<string, unknown> {
  const { status, title, retry } = PROBLEMS[name];
  const { detail, key, originalStatus } = details;
  return {
    type: PROBLEM_TYPE_PREFIX + name,
    title,
    status,
    detail,
    ...(key === undefined ? {} : { key_hint: maskKey(key) }),
    retry,
    ...(originalStatus === undefined ? {} : { original_status: originalStatus }),
  };
}

function envelope(name: ProblemName, details: ProblemDetails): Record<string, unknown> {
  const { code } = PROBLEMS[name];
  const { detail, originalStatus } = details;
  return {
    error: {
      code,
      message: detail,
      ...(originalStatus === undefined ? {} : { original_status: originalStatus }),
    },
  };
}

export const REFUSAL_PROBLEMS = {
  mismatch: ['payload-mismatch', 'this key was used with another request; use a new key'],
  in_progress: [
    'in-progress',
    'a request with this key is being processed; retry with the same key',
  ],
  fence_lost: ['in-progress', 'another attempt took over; retry with the same key'],
  in_doubt: [
    'outcome-unknown',
    'an earlier attempt was lost half-way and may have happened; it must be resolved first',
  ],
  over_quota: ['over-quota', 'too many operations are running here; retry with the same key'],
  deadline: ['store-unavailable', 'the caller had left before the operation began'],
  store_unavailable: [
    'store-unavailable',
    'the store did not answer, so this request ran nothing; retry with the same key',
  ],
} as const satisfies Record<RefusalReason, readonly [ProblemName, string]>;
