import type { StorePhase } from '../events.ts';
import type { EngineParts } from '../parts.ts';
import { type Current, isReleased } from '../record/decide.ts';
import { doubtRecord, fenceOf } from '../record/transitions.ts';
import type {
  DoubtReason,
  OperationId,
  OperationRecord,
  PendingRecord,
  RecordState,
  Revision,
} from '../record.ts';
import { type Bound, type Swapped, swapRecord } from '../store-access/store-calls.ts';

/** A claim that may have had an effect, and what came of recording that. */
interface Doubted {
  readonly won: boolean;
  /** What is there now. */
  readonly current: Current | null;
}

/** Puts the claim of an attempt in doubt that is no longer heard of. */
export async function recordDoubt(
  parts: EngineParts,
  phase: StorePhase,
  bound: Bound,
  id: OperationId,
  found: { readonly record: PendingRecord; readonly revision: Revision },
  reason: DoubtReason,
): Promise<Doubted> {
  const fence = fenceOf(found.record, found.revision);
  const record = doubtRecord(found.record, fence, reason, parts.clock.now());
  const result = await swapRecord(parts, phase, bound, id, found.revision, record);
  parts.world.crashPoint?.('after-doubt');
  if (!result.won) return result;
  parts.observe({ type: 'in_doubt', id, reason });
  return { won: true, current: { revision: result.revision, record, orphaned: false } };
}

/** A record as the attempt that holds it has found it. */
export interface OwnRecord {
  readonly revision: Revision;
  readonly attempt: number;
  /** The attempt was late, and somebody has recorded a doubt. */
  readonly isDoubted: boolean;
}

/** A write of the attempt itself. Like every verdict on a doubt, it is in the audit trail before it is made. */
export async function writeOwn(
  parts: EngineParts,
  phase: StorePhase,
  bound: Bound,
  id: OperationId,
  { revision, attempt, isDoubted }: OwnRecord,
  next: OperationRecord | null,
): Promise<Swapped> {
  if (isDoubted) {
    const to = stateAfter(next);
    const what = to === 'pending' ? 'was still alive' : 'ended';
    await parts.audit({
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
  const result = await swapRecord(parts, phase, bound, id, revision, next);
  if (result.won && isDoubted) parts.observe({ type: 'doubt_resolved', id, by: 'attempt' });
  return result;
}

/** What a write makes of the record, in the words of the audit trail. */
function stateAfter(next: OperationRecord | null): RecordState | 'released' {
  if (next === null) return 'released';
  return next.state === 'pending' && isReleased(next) ? 'released' : next.state;
}
