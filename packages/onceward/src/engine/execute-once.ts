import { refuse, replay } from './answer.ts';
import { budgetLeft, RETRY_SOON, refuseInProgress, storeFailed, tellWaited } from './approach.ts';
import { OncewardError } from './errors.ts';
import { checkOperation } from './input.ts';
import { NearAnswer, type NearTier, type Run, type RunEnd } from './near-tier.ts';
import type { Effect, Execution, Operation } from './operation.ts';
import type { EngineParts } from './parts.ts';
import { StraightRun } from './straight-run.ts';
import type { DurationMs } from './units.ts';
import { waitForDecision, waitForRun } from './wait.ts';

/**
 * Runs the effect of an operation once, whoever asks and how often.
 *
 *   near tier      a settled answer is given again; a run of this process is waited for
 *   claim          one swap against nothing: the winner runs, a loser sees what is there
 *   decide         replay, wait, take over, put in doubt, or refuse: `approach.ts`
 *   run            heartbeat, effect, settle: `attempt.ts`
 *
 * `straight-run.ts` leads from one to the next. After every wait the claim is a belief; the next swap finds out
 * whether it is still true.
 */
export function executeOnce(
  parts: EngineParts,
  operation: Operation,
  effect: Effect,
): Promise<Execution> {
  try {
    checkOperation(operation);
    if (operation.effect.kind === 'transaction') {
      throw new OncewardError(
        'ONCE_INVALID_CONFIG',
        'effect.kind is "transaction"; call executeWithin with the function that opens it',
      );
    }
  } catch (error) {
    return Promise.reject(error);
  }
  return parts.clock.isUnknown
    ? arriveFirst(parts, operation, effect)
    : arrive(parts, operation, effect);
}

/** This process has just begun. Without the store's clock it could take what is kept for expired. */
async function arriveFirst(
  parts: EngineParts,
  operation: Operation,
  effect: Effect,
): Promise<Execution> {
  try {
    await parts.clock.ready();
  } catch (error) {
    return (await storeFailed(parts, operation, effect, error)).execution;
  }
  return arrive(parts, operation, effect);
}

function arrive(parts: EngineParts, operation: Operation, effect: Effect): Promise<Execution> {
  const arrivedAt = parts.world.elapsed();
  const near = parts.near.find(operation.id, operation.fingerprint, parts.clock.retentionNow());
  return near === undefined
    ? lead(parts, operation, effect, arrivedAt)
    : join(parts, operation, effect, arrivedAt, near);
}

/** Something is known of the operation here. */
async function join(
  parts: EngineParts,
  operation: Operation,
  effect: Effect,
  arrivedAt: DurationMs,
  first: ReturnType<NearTier['find']>,
): Promise<Execution> {
  let near = first;
  while (near !== undefined) {
    if (near === 'mismatch') return refuse(parts, operation.id, 'mismatch');
    if (near instanceof NearAnswer) return replay(parts, operation.id, near, true);
    if (near.fingerprint !== operation.fingerprint) {
      if (near.claimed) return refuse(parts, operation.id, 'mismatch');
      break;
    }
    const end = await waitBehind(parts, operation, near, budgetLeft(parts, operation, arrivedAt));
    if (end === 'timed_out' || end === 'aborted') {
      return refuseInProgress(parts, operation, arrivedAt);
    }
    tellWaited(parts, operation, arrivedAt);
    if (end instanceof NearAnswer) return answerOfRun(parts, operation, end);
    if (end !== null && operation.policy.onStoreDown === 'refuse') return end;
    near = parts.near.find(operation.id, operation.fingerprint, parts.clock.retentionNow());
  }
  return lead(parts, operation, effect, arrivedAt);
}

/**
 * Who may not wait for a running effect still waits until it is known that there is one: a run that has not claimed may
 * only be looking up an answer.
 */
function waitBehind(
  parts: EngineParts,
  operation: Operation,
  run: Run,
  left: DurationMs,
): Promise<RunEnd | 'timed_out' | 'aborted'> {
  return left > 0
    ? waitForRun(parts, operation, run, left)
    : waitForDecision(parts, operation, run, operation.policy.storeTimeoutMs);
}

/** This arrival speaks for its process: whatever it learns, the arrivals behind it learn too. */
function lead(
  parts: EngineParts,
  operation: Operation,
  effect: Effect,
  arrivedAt: DurationMs,
): Promise<Execution> {
  const run = parts.near.begin(operation.id, operation.fingerprint);
  if (run === null) {
    return Promise.resolve(refuse(parts, operation.id, 'over_quota', RETRY_SOON));
  }
  return StraightRun.start(parts, operation, effect, run, arrivedAt);
}

/** The run was for this request; what it found in the store may be for another. */
function answerOfRun(parts: EngineParts, operation: Operation, answer: NearAnswer): Execution {
  return answer.fingerprint === operation.fingerprint
    ? replay(parts, operation.id, answer, true)
    : refuse(parts, operation.id, 'mismatch');
}
