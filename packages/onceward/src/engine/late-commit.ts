import type { EngineParts } from './parts.ts';
import type { OperationId, RecordState } from './record.ts';

/** An attempt that was put in doubt speaks up after all. Written before its word is, as every verdict on a doubt. */
export function auditLateCommit(
  parts: EngineParts,
  id: OperationId,
  attempt: number,
  to: RecordState | 'released',
): Promise<void> {
  const what = to === 'pending' ? 'was still alive' : 'ended';
  return parts.audit({
    at: parts.world.now(),
    action: 'late_commit',
    scope: id.scope,
    key: id.key,
    by: 'attempt',
    reason: `attempt ${attempt} ${what} after its lease had lapsed`,
    from: 'in_doubt',
    to,
  });
}
