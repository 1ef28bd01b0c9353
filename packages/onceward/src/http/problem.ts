import type { RefusalReason } from '../engine/operation.ts';
import type { ProfileName } from '../engine/profiles.ts';
import type { DurationMs } from '../engine/units.ts';
import { maskKey } from '../keys/mask.ts';
import { REFUSALS, type RefusalName } from '../refusals/refusals.ts';
import type { HttpAnswer } from './answer.ts';

/** What a person reads first. What the words mean stands in `refusals/`. */
const TITLES = {
  'key-missing': 'An idempotency key is required',
  'key-invalid': 'The idempotency key is not valid',
  'key-conflict': 'The request names more than one idempotency key',
  'first-sent-invalid': 'When the request was first sent cannot be read',
  'body-not-canonical': 'The body cannot be compared',
  'body-too-large': 'The body is too large',
  'payload-mismatch': 'The key was used for another request',
  'key-expired': 'The key was first sent longer ago than it is kept',
  'in-progress': 'The request is still being processed',
  'outcome-unknown': 'Whether the operation happened is not known',
  'response-not-retained': 'The request was executed, its response was not kept',
  'operation-failed': 'The operation failed',
  'handler-failed': 'The handler failed',
  'rolled-back': 'The transaction was rolled back',
  'operation-rejected': 'The operation was rejected',
  'store-unavailable': 'The record of this key cannot be reached',
  'manager-unavailable': 'The managers of this key cannot be reached',
  'over-quota': 'Too many operations are running',
  'scope-unknown': 'The caller cannot be identified',
  unauthorized: 'The credential is not accepted',
  forbidden: 'The caller may not do this',
  'identity-unusable': 'The authentication server gave no usable answer',
  'identity-unavailable': 'The caller cannot be identified at present',
  'upstream-refused': 'The upstream cannot be reached',
  'upstream-reset': 'The upstream broke off',
  'upstream-timeout': 'The upstream did not answer in time',
} as const satisfies Record<RefusalName, string>;

export type ProblemName = RefusalName;

/** A stable identifier; nothing need be served there. */
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
  const { status } = REFUSALS[name];
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
  const { status, retry, happened } = REFUSALS[name];
  const { detail, key, originalStatus } = details;
  return {
    type: PROBLEM_TYPE_PREFIX + name,
    title: TITLES[name],
    status,
    detail,
    ...(key === undefined ? {} : { key_hint: maskKey(key) }),
    retry,
    happened,
    ...(originalStatus === undefined ? {} : { original_status: originalStatus }),
  };
}

function envelope(name: ProblemName, details: ProblemDetails): Record<string, unknown> {
  const { code, retry, happened } = REFUSALS[name];
  const { detail, originalStatus } = details;
  return {
    error: {
      code,
      message: detail,
      retry,
      happened,
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
  expired: [
    'key-expired',
    'the key was first sent longer ago than it is kept here, so it may have happened; check before it is sent under a new key',
  ],
  over_quota: ['over-quota', 'too many operations are running here; retry with the same key'],
  deadline: ['store-unavailable', 'the caller had left before the operation began'],
  rolled_back: [
    'rolled-back',
    'the transaction was rolled back, so nothing of it happened; the server has the cause',
  ],
  outcome_unknown: [
    'outcome-unknown',
    'the commit was not answered, so it may have happened; retry with the same key',
  ],
  store_unavailable: [
    'store-unavailable',
    'the store did not answer, so this request ran nothing; retry with the same key',
  ],
} as const satisfies Record<RefusalReason, readonly [ProblemName, string]>;
