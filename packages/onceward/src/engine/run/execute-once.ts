import { OncewardError } from '../errors.ts';
import { checkOperation } from '../input.ts';
import { NearAnswer, type NearTier } from '../near/near-tier.ts';
import type { Effect, Execution, Operation } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import type { DurationMs } from '../units.ts';
import { emitWaited, RETRY_SOON, refuse, refuseInProgress, replay } from './answer.ts';
import { ExecuteDriver } from './driver.ts';
import { executeWithoutStore } from './unprotected.ts';
import { waitForDecision, waitForRun } from './wait.ts';

/**
 * Runs the effect of an operation once, however often it is asked for.
 *
 *   near tier      a settled answer is given again; a run of this process is waited for
 *   claim          one swap against nothing: the winner runs, a loser decides on what is there
 *   run            effect, with heartbeat and steps
 *   settle         one swap; only then is the caller answered
 *
 * The first is here, the others are in `driver.ts`.
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
  // Without the store's clock, a process that has just begun could take what is kept for expired.
  if (parts.clock.isUnknown) {
    return parts.clock.ready().then(
      () => arrive(parts, operation, effect),
      (error) => executeWithoutStore(parts, operation, effect, error),
    );
  }
  return arrive(parts, operation, effect);
}

function arrive(parts: EngineParts, operation: Operation, effect: Effect): Promise<Execution> {
  const arrivedAt = parts.world.elapsed();
  const near = findNear(parts, operation);
  return near === undefined
    ? lead(parts, operation, effect, arrivedAt)
    : join(parts, operation, effect, arrivedAt, near);
}

type Near = ReturnType<NearTier['find']>;

function findNear(parts: EngineParts, { id, fingerprint }: Operation): Near {
  return parts.near.find(id, fingerprint, parts.clock.retentionNow());
}

/** Something is known of the operation here. */
async function join(
  parts: EngineParts,
  operation: Operation,
  effect: Effect,
  arrivedAt: DurationMs,
  first: Near,
): Promise<Execution> {
  const { id, fingerprint, policy } = operation;
  for (let near = first; near !== undefined; near = findNear(parts, operation)) {
    if (near === 'mismatch') return refuse(parts, id, 'mismatch');
    if (near instanceof NearAnswer) return replay(parts, id, near, true);
    if (near.fingerprint !== fingerprint) {
      if (near.claimed) return refuse(parts, id, 'mismatch');
      break;
    }
    const leftMs = policy.waitMs - (parts.world.elapsed() - arrivedAt);
    // A run that has not claimed may only be reading an answer: that is waited for even where a running effect is not.
    const end = await (leftMs > 0
      ? waitForRun(parts, operation, near, leftMs)
      : waitForDecision(parts, operation, near, policy.storeTimeoutMs));
    // It only waits for another process, and may not have heard yet that there is an answer.
    if (end === 'timed_out' && leftMs <= 0 && !near.claimed) break;
    if (end === 'timed_out' || end === 'aborted') return refuseInProgress(parts, id, arrivedAt);
    emitWaited(parts, id, arrivedAt);
    if (end instanceof NearAnswer) return answerOfRun(parts, operation, end);
    if (end !== null && policy.onStoreDown === 'refuse') return end;
  }
  return lead(parts, operation, effect, arrivedAt);
}

/** This arrival speaks for its process. */
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
  return new Promise((resolve, reject) => {
    new ExecuteDriver(parts, operation, arrivedAt, resolve, reject, effect, run).begin();
  });
}

/** The run was for this request; what it found in the store may be for another. */
function answerOfRun(parts: EngineParts, operation: Operation, answer: NearAnswer): Execution {
  return answer.fingerprint === operation.fingerprint
    ? replay(parts, operation.id, answer, true)
    : refuse(parts, operation.id, 'mismatch');
}
