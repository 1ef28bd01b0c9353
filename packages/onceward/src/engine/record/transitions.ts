import { type EffectKind, onLapseOf, type Policy } from '../policy.ts';
import type {
  DoubtReason,
  InDoubtRecord,
  KeptOutcome,
  OnLapse,
  OperationRecord,
  PendingRecord,
  Resolution,
  Revision,
  SettledRecord,
  SettledState,
  Step,
} from '../record.ts';
import type { EpochMs } from '../units.ts';

/**
 * The arrows of a record's life, as functions from one record to the next. Nothing else makes records; the codec reads
 * them back.
 */

export interface ClaimRequest {
  readonly fingerprint: string;
  readonly effect: EffectKind;
  readonly policy: Policy;
  readonly firstSteps?: readonly Step[];
}

/** (absent | lapsed) → pending */
export function claimRecord(
  request: ClaimRequest,
  owner: string,
  attempt: number,
  steps: readonly Step[],
  now: EpochMs,
): PendingRecord {
  const leaseUntil = now + request.policy.leaseMs;
  return {
    state: 'pending',
    fingerprint: request.fingerprint,
    owner,
    attempt,
    createdAt: now,
    steps: attempt === 1 ? (request.firstSteps ?? steps) : steps,
    fence: 0,
    leaseUntil,
    onLapse: onLapseOf(request.effect),
    keepUntil: leaseUntil + keepLapsedMsOf(request.policy),
  };
}

/** absent → pending without a lease: work that nobody has attempted yet */
export function placedRecord(
  work: {
    readonly fingerprint: string;
    readonly effect: EffectKind;
    readonly steps: readonly Step[];
    readonly keepMs: number;
  },
  owner: string,
  now: EpochMs,
): PendingRecord {
  const { fingerprint, steps } = work;
  return unclaimed(fingerprint, owner, now, steps, onLapseOf(work.effect), now + work.keepMs);
}

/** absent → committed: it was done elsewhere */
export function doneRecord(
  work: { readonly fingerprint: string; readonly keepMs: number },
  outcome: KeptOutcome,
  owner: string,
  now: EpochMs,
): SettledRecord {
  const before = { fingerprint: work.fingerprint, owner, attempt: 0, createdAt: now };
  return settleRecord(before, 0, 'committed', outcome, work.keepMs, now);
}

/** pending → pending, alive for another lease */
export function renewRecord(
  record: PendingRecord,
  fence: Revision,
  steps: readonly Step[],
  policy: Policy,
  now: EpochMs,
): PendingRecord {
  const leaseUntil = now + policy.leaseMs;
  const keepUntil = leaseUntil + keepLapsedMsOf(policy);
  return { ...record, fence, steps, leaseUntil, keepUntil };
}

/** pending → pending, with the steps that the store has of it */
export function withSteps(record: PendingRecord, steps: readonly Step[]): PendingRecord {
  return { ...record, steps };
}

/** in doubt → pending, without a lease yet: the reserved attempt is heard of again */
export function reviveRecord(
  record: PendingRecord | InDoubtRecord,
  policy: Policy,
  now: EpochMs,
): PendingRecord {
  if (record.state === 'pending') return record;
  const { reason: _reason, since: _since, ...kept } = record;
  const keepUntil = now + policy.keepCommittedMs;
  return { ...kept, state: 'pending', leaseUntil: 1, onLapse: 'in_doubt', keepUntil };
}

/**
 * pending → released: the attempt ended without an outcome. `null`: nothing is worth keeping. A key stays bound to its
 * request where an attempt may have done something all the same: a finished step, a lost attempt before this one, or an
 * effect that is safe to repeat and threw half-way. Otherwise another request under the same key
 * would meet what this one did downstream.
 */
export function releaseRecord(
  record: PendingRecord,
  fence: Revision,
  mayHaveActed: boolean,
): PendingRecord | null {
  const isBound = record.attempt > 1 || (mayHaveActed && record.onLapse === 'take_over');
  return record.steps.length > 0 || isBound ? { ...record, fence, leaseUntil: 0 } : null;
}

/**
 * in doubt → open: it did not happen, so the next request under this key runs, whichever it is and however long ago it
 * was first sent. An open record is a released one without a fingerprint, which no request has. `null`: one that had
 * steps or cannot be read may be work that was placed, and is forgotten.
 */
export function openRecord(
  record: OperationRecord | null,
  owner: string,
  keepUntil: EpochMs,
): PendingRecord | null {
  if (record === null || record.steps.length > 0) return null;
  return unclaimed('', owner, record.createdAt, [], 'in_doubt', keepUntil);
}

function unclaimed(
  fingerprint: string,
  owner: string,
  createdAt: EpochMs,
  steps: readonly Step[],
  onLapse: OnLapse,
  keepUntil: EpochMs,
): PendingRecord {
  return {
    state: 'pending',
    fingerprint,
    owner,
    attempt: 0,
    createdAt,
    steps,
    fence: 0,
    leaseUntil: 0,
    onLapse,
    keepUntil,
  };
}

/** (pending | in doubt) → committed | rejected */
export function settleRecord(
  record: Pick<OperationRecord, 'fingerprint' | 'owner' | 'attempt' | 'createdAt'>,
  fence: Revision,
  state: SettledState,
  outcome: KeptOutcome,
  keepMs: number,
  now: EpochMs,
  resolution: Resolution | null = null,
): SettledRecord {
  const { fingerprint, owner, attempt, createdAt } = record;
  return {
    state,
    fingerprint,
    owner,
    attempt,
    createdAt,
    steps: [],
    fence,
    outcome,
    settledAt: now,
    keepUntil: now + keepMs,
    resolution,
  };
}

/**
 * settled → settled, kept from then on: retention starts when the record is written, not when that was first tried. An
 * answer that expired while the store was away would let the effect run again.
 */
export function settledLater(record: SettledRecord, settledAt: EpochMs): SettledRecord {
  const keepMs = record.keepUntil - record.settledAt;
  return { ...record, settledAt, keepUntil: settledAt + keepMs };
}

/** settled → settled, kept for longer. Never shorter than it was promised. */
export function extendRecord(record: SettledRecord, until: EpochMs): SettledRecord {
  return { ...record, keepUntil: Math.max(record.keepUntil, until) };
}

/** pending → in doubt: a question that only the attempt, a probe or an operator may answer */
export function doubtRecord(
  record: PendingRecord,
  fence: Revision,
  reason: DoubtReason,
  now: EpochMs,
): InDoubtRecord {
  const { fingerprint, owner, attempt, createdAt, steps } = record;
  return {
    state: 'in_doubt',
    fingerprint,
    owner,
    attempt,
    createdAt,
    steps,
    fence,
    reason,
    since: now,
  };
}

/** The fence of the attempt that holds the record: the claim's own revision until it has written again. */
export function fenceOf(record: OperationRecord, revision: Revision): Revision {
  return record.fence === 0 ? revision : record.fence;
}

export function keepMsOf(policy: Policy, state: SettledState): number {
  return state === 'committed' ? policy.keepCommittedMs : policy.keepRejectedMs;
}

export function keepLapsedMsOf(policy: Policy): number {
  return policy.keepLapsedMs ?? policy.keepCommittedMs;
}
