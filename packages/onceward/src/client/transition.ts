import { type ClientWorld, mintKey } from './client-world.ts';
import {
  type DoneOperation,
  type FailedOperation,
  type FailureOutcome,
  keysOf,
  newStep,
  type Step,
  type StoredAnswer,
  type WaitingOperation,
} from './operation.ts';
import { backoffMs, LONGEST_WAIT, type RetryPolicy } from './retry-policy.ts';
import type { Verdict } from './verdict.ts';

/** What an operation becomes. `gone`: it was cancelled before anything of it happened. */
export type Next = WaitingOperation | FailedOperation | DoneOperation | Gone;

export interface Gone {
  readonly state: 'gone';
}

export interface Judged {
  readonly verdict: Verdict;
  readonly answer: StoredAnswer | null;
  /** No earlier attempt of this step can have run: if this one did not, the step has not happened. */
  readonly onlyAttempt: boolean;
}

/**
 * The whole life of an operation, as a function of what came back.
 *
 * Two rules carry it. An operation whose outcome is unknown keeps its key and its payload until a definite
 * answer comes, whatever anyone wishes for it meanwhile. And a group only ever moves: forward until a step is
 * refused, then back over the steps that are done, one at a time, each under its own key.
 */
export function transition(
  operation: WaitingOperation,
  { verdict, answer, onlyAttempt }: Judged,
  policy: RetryPolicy,
  world: ClientWorld,
): Next {
  const notRun = onlyAttempt ? { ...operation, unsettledSince: null } : operation;
  switch (verdict.kind) {
    case 'done':
      return operation.direction === 'forward'
        ? stepDone(operation, answer, world.now())
        : stepUndone(operation, world.now());
    case 'refused':
      return refused({ ...operation, unsettledSince: null }, verdict.reason, world.now());
    case 'in_doubt':
      return fail(operation, 'unknown', verdict.reason, world.now());
    case 'in_progress': {
      const waitMs = Math.max(policy.inProgressMs, verdict.retryAfterMs ?? 0);
      return later(operation, { misses: 0, problem: 'still running' }, waitMs, world);
    }
    case 'transient': {
      const settled = verdict.ran === 'no' ? notRun : operation;
      return grantWish(settled, world.now()) ?? countAttempt(settled, verdict, policy, world);
    }
    case 'unreachable': {
      const settled = verdict.ran === 'no' ? notRun : operation;
      const misses = operation.misses + 1;
      return (
        grantWish(settled, world.now()) ??
        later(settled, { misses, problem: verdict.reason }, backoffMs(policy, misses, world), world)
      );
    }
    case 'unauthorized':
      return (
        grantWish(notRun, world.now()) ?? later(notRun, { problem: 'not signed in' }, 0, world)
      );
    case 'aborted':
      return operation;
  }
}

function later(
  operation: WaitingOperation,
  changes: Partial<WaitingOperation>,
  waitMs: number,
  world: ClientWorld,
): WaitingOperation {
  return { ...operation, ...changes, notBefore: world.now() + Math.min(waitMs, LONGEST_WAIT) };
}

/**
 * Groups do not give up: stopping halfway is the one end they must not have. Nor does an operation that someone
 * wants changed: only a definite answer says whether the change may be made.
 */
function countAttempt(
  operation: WaitingOperation,
  verdict: Extract<Verdict, { kind: 'transient' }>,
  policy: RetryPolicy,
  world: ClientWorld,
): Next {
  const attempts = operation.attempts + 1;
  const mayGiveUp = verdict.atTheDoor || (!operation.group && operation.wish === null);
  if (attempts >= policy.maxAttempts && mayGiveUp) {
    const outcome = operation.unsettledSince === null ? 'refused' : 'unknown';
    const reason = `gave up after ${attempts} attempts: ${verdict.reason}`;
    return fail({ ...operation, attempts }, outcome, reason, world.now());
  }
  const waitMs = Math.max(backoffMs(policy, attempts, world), verdict.retryAfterMs ?? 0);
  return later(operation, { attempts, misses: 0, problem: verdict.reason }, waitMs, world);
}

function stepDone(operation: WaitingOperation, answer: StoredAnswer | null, now: number): Next {
  const steps = operation.steps.with(operation.cursor, {
    ...(operation.steps[operation.cursor] as Step),
    answer,
  });
  const cursor = operation.cursor + 1;
  if (cursor === steps.length) {
    const { version, id, lane, label, fingerprint } = operation;
    const keys = keysOf({ steps });
    const answers = steps.map((step) => step.answer);
    return { state: 'done', version, id, lane, label, keys, fingerprint, answers, doneAt: now };
  }
  const ahead = { ...operation, ...FRESH, steps, cursor, wish: operation.wish };
  return grantWish(ahead, now) ?? ahead;
}

function stepUndone(operation: WaitingOperation, now: number): Next {
  const steps = operation.steps.with(operation.cursor, {
    ...(operation.steps[operation.cursor] as Step),
    undone: true,
  });
  const back = { ...operation, ...FRESH, steps };
  return operation.cursor > 0
    ? { ...back, cursor: operation.cursor - 1 }
    : fail(back, 'undone', operation.cause ?? 'taken back', now);
}

function refused(operation: WaitingOperation, reason: string, now: number): Next {
  const wished = grantWish(operation, now);
  if (wished) return wished;
  if (operation.direction === 'undo') return fail(operation, 'stuck', reason, now);
  return operation.cursor === 0
    ? fail(operation, 'refused', reason, now)
    : turnBack(operation, reason);
}

/** Every step before the cursor is done, and every one of those has an undo: groups are checked for it. */
function turnBack(operation: WaitingOperation, cause: string): WaitingOperation {
  return { ...operation, ...FRESH, direction: 'undo', cursor: operation.cursor - 1, cause };
}

/** Does what was asked for meanwhile, if nothing of the current step can have happened; else `null`. */
export function grantWish(operation: WaitingOperation, now: number): Next | null {
  const { wish } = operation;
  if (wish === null || operation.unsettledSince !== null) return null;
  if (wish.kind === 'edit') {
    const steps = [newStep(wish.key, wish.request)];
    return { ...operation, ...FRESH, fingerprint: wish.hash, steps };
  }
  if (operation.direction === 'undo') return { ...operation, wish: null, notBefore: now };
  return operation.cursor === 0 ? { state: 'gone' } : turnBack(operation, 'cancelled');
}

export function fail(
  operation: WaitingOperation,
  outcome: FailureOutcome,
  reason: string,
  now: number,
): FailedOperation {
  const { misses, notBefore, unsettledSince, problem, cause, wish, ...kept } = operation;
  return { ...kept, state: 'failed', outcome, reason, failedAt: now };
}

/**
 * A failed operation on its way again. What may have happened keeps its key; what was definitely refused gets
 * a new one, for the server may have kept the refusal.
 */
export function revive(operation: FailedOperation, world: ClientWorld): WaitingOperation {
  const { outcome: _outcome, reason, failedAt: _failedAt, ...kept } = operation;
  const fresh: WaitingOperation = { ...kept, ...FRESH, state: 'waiting', cause: null };
  switch (operation.outcome) {
    case 'unknown':
      // It may have happened already, so no wish is granted before the server has said what became of it.
      return { ...fresh, unsettledSince: world.now() };
    case 'stuck':
      return { ...fresh, cause: reason, steps: withNewUndoKey(operation, world) };
    default:
      return { ...fresh, direction: 'forward', cursor: 0, steps: withNewKeys(operation, world) };
  }
}

function withNewKeys(operation: FailedOperation, world: ClientWorld): Step[] {
  return operation.steps.map(({ request, undo }) =>
    newStep(mintKey(world), request, undo && { ...undo, key: mintKey(world) }),
  );
}

function withNewUndoKey(operation: FailedOperation, world: ClientWorld): Step[] {
  return operation.steps.map((step, i) =>
    i === operation.cursor && step.undo !== null
      ? { ...step, undo: { ...step.undo, key: mintKey(world) } }
      : step,
  );
}

/** What a step starts with. */
export const FRESH = {
  attempts: 0,
  misses: 0,
  notBefore: 0,
  unsettledSince: null,
  problem: null,
  wish: null,
} as const;
