import { hash } from 'node:crypto';
import { OncewardError } from '../engine/errors.ts';
import { checkText } from '../engine/input.ts';
import type { DurationMs, EpochMs } from '../engine/units.ts';
import { formatJobKey, parseJobKey } from '../keys/job-key.ts';

/** A job as its client asked for it. Made by `submissionOf`, which has checked it. */
export interface Submission {
  /** Whose keys and jobs these are; another tenant's are never seen. */
  readonly tenant: string;
  /** `{client_id}:{sequence}:{nonce}` */
  readonly key: string;
  readonly type: string;
  /** The payload as JSON text: written once, hashed, stored and sent as it is. */
  readonly payload: string;
  readonly fingerprint: string;
  /** When its client first sent it, if it says so. A key that may have been forgotten since then makes no new job. */
  readonly firstSentAt?: EpochMs;
}

/** What a gate or a manager answers. Being refused is a result: nothing was run, and `why` says what to do. */
export type Answer =
  | {
      readonly status: 'committed';
      readonly jobId: string;
      readonly wasDuplicate: boolean;
      /** How much longer the manager will give this answer. */
      readonly keepMs: DurationMs;
    }
  | {
      readonly status: 'rejected';
      readonly reason: string;
      readonly wasDuplicate: boolean;
      readonly keepMs: DurationMs;
    }
  | {
      /** The key was taken in, and its job was cancelled since. It will not run under this key. */
      readonly status: 'cancelled';
      readonly jobId: string;
      /** `no`: it never began. */
      readonly happened: 'no' | 'unknown';
      readonly wasDuplicate: boolean;
      readonly keepMs: DurationMs;
    }
  | RefusedSubmission;

export interface RefusedSubmission {
  readonly status: 'refused';
  readonly why: RefusedWhy;
  readonly retryAfterMs?: DurationMs;
  /** For people; without it the reason has a sentence of its own. */
  readonly detail?: string;
}

export type RefusedWhy =
  /** Still pending: retry with the same key. */
  | 'in_progress'
  /** The key was used for another job. */
  | 'mismatch'
  /** Whether the job was created is not known; an operator must say. */
  | 'in_doubt'
  /** The key is absent, and was first sent so long ago that it may have been forgotten. */
  | 'expired'
  /** The gate is full. */
  | 'over_quota'
  /** The store, the managers or the home of the key cannot be reached. */
  | 'unavailable';

export const LONGEST_TENANT = 128;
export const LONGEST_TYPE = 128;

export interface SubmissionParts {
  readonly tenant: string;
  readonly key: string;
  readonly type: string;
  readonly payload: unknown;
  readonly firstSentAt?: EpochMs | undefined;
}

/** Checks what came in and condenses it. Bad input throws `ONCE_INVALID_INPUT`; nothing was stored by then. */
export function submissionOf(parts: SubmissionParts): Submission {
  const { tenant, type, firstSentAt } = parts;
  checkText('tenant', tenant, LONGEST_TENANT);
  checkText('type', type, LONGEST_TYPE);
  const key = isPlainKey(parts.key) ? parts.key : spelledOneWay(parts.key);
  const payload = payloadText(parts.payload);
  const submission = { tenant, key, type, payload, fingerprint: fingerprintOf(type, payload) };
  return firstSentAt === undefined ? submission : { ...submission, firstSentAt };
}

const PLAIN_KEY = /^[\x21-\x7e]{1,200}:(?:0|[1-9][0-9]{0,18}):[0-9a-f]{16}$/;

/** Most keys are spelled as they are kept, and their sequences far from the limit: those need no taking apart. */
export function isPlainKey(key: string): boolean {
  return PLAIN_KEY.test(key);
}

function spelledOneWay(key: string): string {
  const parsed = parseJobKey(key);
  if (!parsed.ok) throw new OncewardError('ONCE_INVALID_INPUT', parsed.reason);
  return formatJobKey(parsed.parts);
}

function payloadText(payload: unknown): string {
  let why = '';
  try {
    const text = JSON.stringify(payload ?? null);
    if (text !== undefined) return text;
  } catch (error) {
    // Too deeply nested for the stack, in a circle, or a bigint.
    why = `: ${(error as Error).message}`;
  }
  throw new OncewardError('ONCE_INVALID_INPUT', `the payload cannot be written as JSON${why}`);
}

function fingerprintOf(type: string, payload: string): string {
  return hash('sha256', `${type}\0${payload}`, 'base64url');
}

export function refused(
  why: RefusedWhy,
  more: Omit<RefusedSubmission, 'status' | 'why'> = {},
): RefusedSubmission {
  return { status: 'refused', why, ...more };
}
