import { type ClientWorld, HOUR, MINUTE, SECOND } from './client-world.ts';

export interface RetryPolicy {
  /** How many answers that call for another try are taken before giving up. */
  readonly maxAttempts: number;
  readonly baseMs: number;
  readonly capMs: number;
  /** How long to leave a server alone that is still running the same key and does not say for how long. */
  readonly inProgressMs: number;
  /** A longer Retry-After than this is not waited for in a call that someone is waiting on. */
  readonly longestRetryAfterMs: number;
  /** An attempt without an answer is given up after this. Its outcome is then unknown. */
  readonly timeoutMs: number;
}

export const RETRY_DEFAULTS: RetryPolicy = {
  maxAttempts: 5,
  baseMs: SECOND,
  capMs: 30 * SECOND,
  inProgressMs: 2 * SECOND,
  longestRetryAfterMs: 5 * MINUTE,
  timeoutMs: 30 * SECOND,
};

/** A queued operation is tried again after this at the latest, whatever a Retry-After asks for. */
export const LONGEST_WAIT = HOUR;

/**
 * The pause before the next try, after `failures` of them: it doubles from the base up to the cap, and half
 * of it is left to chance, so that callers that failed together do not come back together.
 */
export function backoffMs(policy: RetryPolicy, failures: number, world: ClientWorld): number {
  const full = Math.min(policy.capMs, policy.baseMs * 2 ** Math.min(30, Math.max(0, failures - 1)));
  return Math.round(full / 2 + (full / 2) * world.random());
}

/** Reads Retry-After, which is a number of seconds or a date. `null`: absent, or not to be understood. */
export function parseRetryAfter(value: string | null, now: number): number | null {
  const text = value?.trim() ?? '';
  if (/^\d+$/.test(text)) return Number(text) * SECOND;
  // A date must have the form of one: the platform's parser would also take "1.5" or "-3" for years.
  if (!/^[A-Za-z]{3,9},? /.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}
