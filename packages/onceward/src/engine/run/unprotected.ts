import { isStoreError } from '../errors.ts';
import type { Effect, Execution, Operation } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import { mayBeForgotten } from '../record/first-sent.ts';
import { RETRY_SOON, refuse } from './answer.ts';

/** Nothing is known of the record. Refuses, or runs unprotected where the policy chose that. */
export async function executeWithoutStore(
  parts: EngineParts,
  operation: Operation,
  effect: Effect,
  error: unknown,
): Promise<Execution> {
  if (!isStoreError(error)) throw error;
  const { id, policy, signal } = operation;
  const isTooOld = mayBeForgotten(operation.firstSentAt, policy, parts.clock.time());
  if (isTooOld || policy.onStoreDown === 'refuse') {
    return refuse(parts, id, 'store_unavailable', { ...RETRY_SOON, cause: error });
  }
  if (signal?.aborted) return refuse(parts, id, 'deadline');
  parts.observe({ type: 'unprotected', id });
  const settlement = await effect({
    id,
    number: 1,
    fence: 0,
    signal: new AbortController().signal,
    downstreamKey: parts.downstreamKey(id),
    step: (_name, work) => work(),
  });
  const unkept = { recorded: false, keptUntil: null } as const;
  return { kind: 'executed', settlement, attempt: 1, fence: 0, ...unkept };
}
