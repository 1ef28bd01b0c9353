import type { Policy } from '../policy.ts';
import type {
  InDoubtRecord,
  OperationRecord,
  PendingRecord,
  Revision,
  SettledRecord,
  Step,
} from '../record.ts';
import type { EpochMs } from '../units.ts';
import { mayBeForgotten } from './first-sent.ts';

/** What the store holds, as far as it can be understood. */
export interface Current {
  readonly revision: Revision;
  /** `null`: there is something, but it cannot be read. It counts as in doubt, never as absent. */
  readonly record: OperationRecord | null;
  /** Claimed by an earlier life of an embedded store: the process that held it is gone. */
  readonly orphaned: boolean;
}

export interface Arrival {
  readonly fingerprint: string;
  /** When the caller first sent it, if it says so. */
  readonly firstSentAt?: EpochMs;
}

export type Rules = Pick<Policy, 'waitMs' | 'keepCommittedMs' | 'keepLapsedMs'>;

/** What time it is depends on what for: see `EngineClock`. */
export interface Time {
  /** A lease that ends by then has lapsed. */
  readonly leases: EpochMs;
  /** What is kept until then may be forgotten: no clock is behind this. */
  readonly retention: EpochMs;
  /** No clock is ahead of this. */
  readonly latest: EpochMs;
}

export type Decision =
  | {
      readonly kind: 'claim';
      readonly expected: Revision | null;
      readonly attempt: number;
      readonly steps: readonly Step[];
    }
  | { readonly kind: 'replay'; readonly revision: Revision; readonly record: SettledRecord }
  | { readonly kind: 'wait'; readonly revision: Revision; readonly leaseUntil: EpochMs }
  /** The lease lapsed and the effect may have happened: record the doubt, then refuse. */
  | { readonly kind: 'doubt'; readonly revision: Revision; readonly record: PendingRecord }
  | { readonly kind: 'refuse'; readonly reason: 'mismatch' }
  | { readonly kind: 'refuse'; readonly reason: 'in_progress' }
  /** Nothing is there, and what was may have been forgotten. */
  | { readonly kind: 'refuse'; readonly reason: 'expired' }
  | {
      readonly kind: 'refuse';
      readonly reason: 'in_doubt';
      readonly revision: Revision;
      readonly record: InDoubtRecord | null;
    };

const EXPIRED: Decision = { kind: 'refuse', reason: 'expired' };

/** What an arrival gets to do. Pure and total: no clock, no chance, no store. */
export function decide(
  current: Current | null,
  arrival: Arrival,
  policy: Rules,
  time: Time,
): Decision {
  if (current === null) return decideAbsent(null, arrival, policy, time);
  const { record, revision } = current;
  if (record === null) return { kind: 'refuse', reason: 'in_doubt', revision, record: null };
  if (isForgettable(record, time)) return decideAbsent(revision, arrival, policy, time);
  if (isOpen(record)) return { kind: 'claim', expected: revision, attempt: 1, steps: [] };
  if (record.fingerprint !== arrival.fingerprint) return { kind: 'refuse', reason: 'mismatch' };
  switch (record.state) {
    case 'committed':
    case 'rejected':
      return { kind: 'replay', revision, record };
    case 'in_doubt':
      return { kind: 'refuse', reason: 'in_doubt', revision, record };
    case 'pending':
      return decidePending(record, current, policy, time);
  }
}

function decideAbsent(
  expected: Revision | null,
  arrival: Arrival,
  policy: Rules,
  time: Time,
): Decision {
  if (mayBeForgotten(arrival.firstSentAt, policy, time)) return EXPIRED;
  return { kind: 'claim', expected, attempt: 1, steps: [] };
}

function decidePending(
  record: PendingRecord,
  current: Current,
  policy: Pick<Policy, 'waitMs'>,
  time: Time,
): Decision {
  const { revision } = current;
  if (hasLapsed(record, current.orphaned, time.leases)) {
    return isReleased(record) || record.onLapse === 'take_over'
      ? { kind: 'claim', expected: revision, attempt: record.attempt + 1, steps: record.steps }
      : { kind: 'doubt', revision, record };
  }
  if (policy.waitMs > 0) return { kind: 'wait', revision, leaseUntil: record.leaseUntil };
  return { kind: 'refuse', reason: 'in_progress' };
}

/** Retention has ended: the record is as good as absent, though a sweeper has not yet been by. */
export function isForgettable(record: OperationRecord, time: Time): boolean {
  const now = time.retention;
  switch (record.state) {
    case 'in_doubt':
      return false;
    case 'pending':
      return (isReleased(record) || record.onLapse === 'take_over') && record.keepUntil <= now;
    default:
      return record.keepUntil <= now;
  }
}

/** Claimed by this attempt, and nothing has become of it yet: not given up, not doubted, not settled. */
export function isHeldBy(current: Current | null, owner: string): current is Current {
  const record = current?.record;
  return record?.state === 'pending' && record.owner === owner && !isReleased(record);
}

/** Resolved as void: free for the next request. See `openRecord`. */
export function isOpen(record: OperationRecord): boolean {
  return record.state === 'pending' && isReleased(record) && record.fingerprint === '';
}

export function isReleased(record: PendingRecord): boolean {
  return record.leaseUntil === 0;
}

export function hasLapsed(record: PendingRecord, orphaned: boolean, now: EpochMs): boolean {
  return orphaned || record.leaseUntil <= now;
}
