import type { ClientWorld } from '../client-world.ts';
import { backoffMs, LONGEST_WAIT, type RetryPolicy } from '../retry-policy.ts';
import type { Verdict } from '../verdict.ts';
import type { Groups } from './groups.ts';
import {
  type DoneOperation,
  type FailedOperation,
  type FailureCode,
  type FailureOutcome,
  keysOf,
  newStep,
  type Step,
  type StoredAnswer,
  type WaitingOperation,
} from './operation.ts';
import { invalid } from './request-intake.ts';

/** What an operation becomes. `cancelled`: before anything of it happened. */
export type Next = WaitingOperation | FailedOperation | DoneOperation | Cancelled;

export interface Cancelled {
  readonly state: 'cancelled';
}

export interface Judged {
  readonly verdict: Verdict;
  readonly answer: StoredAnswer | null;
  /** No other attempt of this step can have run: if this one did not, the step has not happened. */
  readonly onlyAttempt: boolean;
}

/** How long the outbox goes on. */
export interface Patience extends RetryPolicy {
  /** The server may say "not now" for this long. */
  readonly giveUpAfterMs: number;
}

/** Why an operation failed, for programs and for people. */
export interface Why {
  readonly code: FailureCode;
  readonly reason: string;
  readonly answer?: StoredAnswer | null;
}

/** What decides beside the answer. */
export interface Ways {
  /** The key of what is sent for the first time. */
  mintKey(): string;
  readonly policy: Patience;
  readonly world: ClientWorld;
  /** `undefined`: operations that are groups are left alone. */
  readonly groups?: Groups;
}

/**
 * The whole life of an operation, as a function of what came back. An operation whose outcome is unknown keeps its key
 * and its payload until a definite answer comes, whatever anyone wishes for it meanwhile.
 */
export function transition(
  operation: WaitingOperation,
  { verdict, answer, onlyAttempt }: Judged,
  ways: Ways,
): Next {
  const { policy, world } = ways;
  const now = world.now();
  const ranNot = onlyAttempt && (!('ran' in verdict) || verdict.ran === 'no');
  const settled = ranNot ? { ...operation, unsettledSince: null } : operation;
  switch (verdict.kind) {
    case 'done':
      return stepDone(operation, answer, ways);
    case 'refused': {
      const { code = 'REFUSED', reason } = verdict;
      return refused({ ...operation, unsettledSince: null }, { code, reason, answer }, ways);
    }
    case 'in_doubt':
      return fail(operation, 'unknown', { code: 'IN_DOUBT', reason: verdict.reason, answer }, now);
    case 'in_progress': {
      const waitMs = Math.max(policy.inProgressMs, verdict.retryAfterMs ?? 0);
      return later(operation, { misses: 0, problem: 'still running' }, waitMs, now);
    }
    case 'transient':
      return grantWish(settled, ways) ?? turnedAway(settled, verdict, answer, ways);
    case 'unreachable': {
      const misses = operation.misses + 1;
      const changes = { misses, problem: verdict.reason };
      const waitMs = backoffMs(policy, misses, world);
      return grantWish(settled, ways) ?? later(settled, changes, waitMs, now);
    }
    case 'unauthorized':
    case 'not_sent':
      return grantWish(settled, ways) ?? later(settled, { problem: 'not signed in' }, 0, now);
    case 'aborted':
      return operation;
  }
}

function later(
  operation: WaitingOperation,
  changes: Partial<WaitingOperation>,
  waitMs: number,
  now: number,
): WaitingOperation {
  const notBefore = now + Math.min(waitMs, LONGEST_WAIT);
  return { ...operation, ...changes, notBefore, delayedAt: now };
}

/**
 * A server that is busy, or says when to come back, is waited for as long as `giveUpAfterMs` allows; other trouble is
 * counted. Groups do not give up: stopping halfway is the one end they must not have. Nor does an operation that
 * someone wants changed: only a definite answer says whether the change may be made.
 */
function turnedAway(
  operation: WaitingOperation,
  verdict: Extract<Verdict, { kind: 'transient' }>,
  answer: StoredAnswer | null,
  { policy, world }: Ways,
): Next {
  const now = world.now();
  const attempts = operation.attempts + (verdict.isBusy ? 0 : 1);
  const misses = verdict.isBusy ? operation.misses + 1 : 0;
  const turnedAwaySince = operation.turnedAwaySince ?? now;
  const mayGiveUp = verdict.atTheDoor || (!operation.group && operation.wish === null);
  const isOver = attempts >= policy.maxAttempts || now - turnedAwaySince >= policy.giveUpAfterMs;
  if (isOver && mayGiveUp) {
    const outcome = operation.unsettledSince === null ? 'refused' : 'unknown';
    const reason = `gave up: ${verdict.reason}`;
    return fail({ ...operation, attempts }, outcome, { code: 'GAVE_UP', reason, answer }, now);
  }
  const { retryAfterMs } = verdict;
  const failures = retryAfterMs === null ? attempts + misses : 1;
  const waitMs = Math.max(retryAfterMs ?? 0, backoffMs(policy, failures, world));
  const changes = { attempts, misses, turnedAwaySince, problem: verdict.reason };
  return later(operation, changes, waitMs, now);
}

function stepDone(operation: WaitingOperation, answer: StoredAnswer | null, ways: Ways): Next {
  const now = ways.world.now();
  const isForward = operation.direction === 'forward';
  const steps = isForward ? withStep(operation, { answer }) : operation.steps;
  if (!isForward || operation.cursor + 1 < steps.length) {
    const next = theGroups(ways).done({ ...operation, steps }, now);
    return (isForward && grantWish(next as WaitingOperation, ways)) || next;
  }
  const { version, id, owner, lane, label, meta, fingerprint } = operation;
  const answers = steps.map((step) => step.answer);
  const keys = keysOf({ steps });
  const kept = { version, id, owner, lane, label, meta, fingerprint, keys, answers };
  return { ...kept, state: 'done', doneAt: now };
}

export function withStep(operation: WaitingOperation, changes: Partial<Step>): Step[] {
  const { steps, cursor } = operation;
  return steps.with(cursor, { ...(steps[cursor] as Step), ...changes });
}

function refused(operation: WaitingOperation, why: Why, ways: Ways): Next {
  const now = ways.world.now();
  const wished = grantWish(operation, ways);
  if (wished) return wished;
  return isAtStart(operation)
    ? fail(operation, 'refused', why, now)
    : theGroups(ways).refused(operation, why, now);
}

/** No step is done yet. */
export function isAtStart({ cursor, direction }: WaitingOperation): boolean {
  return cursor === 0 && direction === 'forward';
}

export function theGroups({ groups }: Pick<Ways, 'groups'>): Groups {
  if (groups === undefined) throw invalid('give new Outbox({ groups })');
  return groups;
}

/** Does what was asked for meanwhile, if nothing of the current step can have happened; else `null`. */
export function grantWish(operation: WaitingOperation, ways: Ways): Next | null {
  const { wish } = operation;
  if (wish === null || operation.unsettledSince !== null) return null;
  if (wish.kind === 'edit') {
    const steps = [newStep(wish.key, wish.request)];
    return { ...operation, ...FRESH, fingerprint: wish.hash, steps };
  }
  return isAtStart(operation)
    ? { state: 'cancelled' }
    : theGroups(ways).cancel(operation, ways.world.now());
}

export function fail(
  operation: WaitingOperation,
  outcome: FailureOutcome,
  why: Why,
  now: number,
): FailedOperation {
  return { ...operation, answer: null, ...why, state: 'failed', outcome, failedAt: now };
}

/**
 * A failed operation that is retried. What may have happened keeps its key, and the time since when; what was
 * definitely refused gets a new one, for the server may have kept the refusal.
 */
export function revive(operation: FailedOperation, ways: Ways): WaitingOperation {
  const { outcome } = operation;
  const { world } = ways;
  const fresh: WaitingOperation = { ...operation, ...FRESH, state: 'waiting' };
  if (outcome === 'unknown') {
    const unsettledSince = operation.unsettledSince ?? operation.failedAt;
    return { ...fresh, unsettledSince, retriedAt: world.now() };
  }
  if (outcome === 'stuck') return { ...fresh, steps: theGroups(ways).unstick(operation, ways) };
  const steps = operation.steps.map(({ request, undo }) =>
    newStep(ways.mintKey(), request, undo && { ...undo, key: ways.mintKey() }),
  );
  return { ...fresh, direction: 'forward', cursor: 0, cause: null, steps };
}

/** What a step starts with. */
export const FRESH = {
  attempts: 0,
  misses: 0,
  begun: 0,
  turnedAwaySince: null,
  notBefore: 0,
  delayedAt: 0,
  retriedAt: null,
  unsettledSince: null,
  problem: null,
  wish: null,
} as const;
