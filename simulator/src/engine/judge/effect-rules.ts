import type { Revision } from 'onceward';
import type { AttemptFact, Call, CaseFile } from './case-file.ts';

/** Whether this effect may begin now, under this fence, for this caller. */
export function judgeBegin(
  call: Call,
  fence: Revision,
  attempt: AttemptFact | null,
  now: number,
): string | null {
  const { file, life } = call;
  const { policy, effect } = file.operation;
  if (call.ended) return 'an effect began for a caller who had been refused';
  if (call.aborted) return 'an effect began for a caller who had left';
  if (call.begun) return 'an effect began twice for one arrival';
  if (fence === 0) {
    return policy.onStoreDown === 'run_unprotected' ? null : 'an effect ran unprotected';
  }
  // In a transaction the claim becomes true together with the effect: there is nothing to see yet.
  if (effect.kind === 'transaction') return null;
  if (attempt === null) return 'an effect began without a claim in the store';
  if (attempt.actor !== life) return "an effect began under another process's claim";
  if (attempt.fingerprint !== call.arrival.fingerprint) {
    return 'an effect began under the claim of another request';
  }
  if (attempt.begun !== null) return 'an effect began twice under one claim';
  if (attempt.givenBack) return 'an effect began under a claim that had been given back';
  const stale = now - attempt.writtenAt > policy.leaseMs && life.missedMs === 0;
  return stale ? 'an effect began under a claim that could have lapsed' : null;
}

/**
 * Whether this may happen once more. Where repeating does harm: once in the life of a record, as long as operators
 * look before they answer. Elsewhere: once an attempt, and attempts follow each other by the rules of leases.
 */
export function judgeHappening(
  file: CaseFile,
  attempt: AttemptFact,
  step: string | null,
): string | null {
  if (step !== null && attempt.claim.steps.some(({ name }) => name === step)) {
    return 'a finished step was repeated';
  }
  if (attempt.givenBack) return 'an effect happened under a claim that had been given back';
  if (step === null && attempt.happened > 0) return 'an effect happened twice in one attempt';
  const { effect } = file.operation;
  const onceALife = file.isFragile || effect.kind === 'transaction';
  if (!onceALife || file.tainted) return null;
  const again = file
    .attemptsOfLife(attempt.life)
    .some((other) => (step === null ? other.happened > 0 : other.steps.has(step)));
  return again ? 'an effect that must not be repeated happened twice' : null;
}
