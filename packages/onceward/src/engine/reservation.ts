import { answerOf, packOutcome } from './answer.ts';
import { claim } from './approach.ts';
import { giveBack, renewStale } from './attempt.ts';
import { Claim } from './claim.ts';
import { decide, isReleased } from './decide.ts';
import { mayBeForgotten } from './first-sent.ts';
import { checkOutcome } from './input.ts';
import { auditLateCommit } from './late-commit.ts';
import { NearAnswer } from './near-tier.ts';
import type { Operation } from './operation.ts';
import { callStore, type EngineParts, prepare, swapRecord, understand } from './parts.ts';
import type { Policy } from './policy.ts';
import type {
  InDoubtRecord,
  OperationId,
  Outcome,
  PendingRecord,
  Revision,
  SettledRecord,
  SettledState,
  Step,
} from './record.ts';
import { Rounds } from './rounds.ts';
import {
  doubtRecord,
  fenceOf,
  keepMsOf,
  releaseRecord,
  renewRecord,
  settleRecord,
} from './transitions.ts';
import type { DurationMs, EpochMs } from './units.ts';
import { waitForChange } from './wait.ts';

/**
 * The engine for callers in another process: reserve, then commit, reject, renew or release under the fence that
 * the reservation gave. Nothing is remembered here between the calls; the record and its fence are all there is.
 */
export type ReserveResult =
  | {
      readonly decision: 'claimed';
      readonly fence: Revision;
      readonly attempt: number;
      readonly leaseUntil: EpochMs;
      readonly steps: readonly Step[];
    }
  | {
      readonly decision: 'replay';
      readonly state: SettledState;
      readonly outcome: Outcome;
      readonly attempt: number;
      readonly settledAt: EpochMs;
    }
  | { readonly decision: 'in_progress' | 'mismatch' | 'in_doubt' | 'expired' };

export async function reserve(
  parts: EngineParts,
  operation: Omit<Operation, 'signal' | 'probe'>,
): Promise<ReserveResult> {
  await parts.clock.ready();
  const arrivedAt = parts.world.elapsed();
  const result = await claimOrLearn(parts, operation, arrivedAt);
  const { id } = operation;
  const waitedMs = parts.world.elapsed() - arrivedAt;
  if (result.decision === 'mismatch') parts.observe({ type: 'mismatch', id });
  if (result.decision === 'expired') parts.observe({ type: 'expired', id });
  if (result.decision === 'in_doubt') parts.observe({ type: 'refused_in_doubt', id });
  if (result.decision === 'in_progress') parts.observe({ type: 'in_progress', id, waitedMs });
  return result;
}

function replayed(
  parts: EngineParts,
  id: OperationId,
  answer: NearAnswer,
  near: boolean,
): ReserveResult {
  answer.replays += 1;
  const { state, outcome, attempt, settledAt } = answer;
  parts.observe({ type: 'replayed', id, near, state, settledAt });
  return { decision: 'replay', state, outcome, attempt, settledAt };
}

async function claimOrLearn(
  parts: EngineParts,
  operation: Omit<Operation, 'signal' | 'probe'>,
  arrivedAt: DurationMs,
): Promise<ReserveResult> {
  const { id, policy } = operation;
  const known = parts.near.find(id, operation.fingerprint, parts.clock.retentionNow());
  if (known === 'mismatch') return { decision: 'mismatch' };
  if (known instanceof NearAnswer) {
    return replayed(parts, id, known, true);
  }
  const rounds = new Rounds(parts.world);
  const time = parts.clock.time();
  const isTooOld = mayBeForgotten(operation.firstSentAt, policy, time);
  const first = isTooOld ? await look(parts, id, policy) : null;
  let decision = decide(first, operation, policy, time);
  for (;;) {
    if (decision.kind === 'claim' || decision.kind === 'doubt') await rounds.next();
    switch (decision.kind) {
      case 'claim': {
        const found = await claim(parts, operation, decision);
        if (found instanceof Claim && (await standsStill(parts, operation, found))) {
          const { fence, attempt } = found;
          const { leaseUntil, steps } = found.record;
          return { decision: 'claimed', fence, attempt, leaseUntil, steps };
        }
        const current = found instanceof Claim ? await look(parts, id, policy) : found;
        decision = decide(current, operation, policy, parts.clock.time());
        break;
      }
      case 'replay': {
        const answer = await answerOf(parts, decision.record);
        if (answer === null) return { decision: 'in_doubt' };
        parts.near.remember(id, answer);
        return replayed(parts, id, answer, false);
      }
      case 'wait': {
        const left = policy.waitMs - (parts.world.elapsed() - arrivedAt);
        if (left <= 0) return { decision: 'in_progress' };
        await waitForChange(parts, operation, decision, left);
        decision = decide(await look(parts, id, policy), operation, policy, parts.clock.time());
        break;
      }
      case 'doubt': {
        const { revision } = decision;
        const fence = fenceOf(decision.record, revision);
        const now = parts.clock.now();
        const doubt = doubtRecord(decision.record, fence, 'lease_lapsed', now);
        const result = await swapRecord(parts, 'doubt', policy, id, revision, prepare(id, doubt));
        if (result.won) {
          parts.observe({ type: 'in_doubt', id, reason: 'lease_lapsed' });
          return { decision: 'in_doubt' };
        }
        const current = understand(parts, id, result.current);
        decision = decide(current, operation, policy, parts.clock.time());
        break;
      }
      case 'refuse':
        return { decision: decision.reason };
    }
  }
}

export type FencedChange =
  | { readonly as: SettledState; readonly outcome: Outcome }
  | { readonly as: 'renewed' }
  | { readonly as: 'released' };

export type FencedResult =
  | { readonly done: true; readonly leaseUntil?: EpochMs }
  /** The fence is not the one that may write: another attempt, a verdict, or nothing is there. */
  | { readonly done: false };

/** One write of a reserved attempt. Asked again after a lost reply, it finds its own write and says done. */
export async function writeFenced(
  parts: EngineParts,
  id: OperationId,
  fence: Revision,
  policy: Policy,
  change: FencedChange,
): Promise<FencedResult> {
  if ('outcome' in change) checkOutcome(change.outcome, policy.maxOutcomeBytes);
  await parts.clock.ready();
  for (const rounds = new Rounds(parts.world); ; await rounds.next()) {
    const current = await look(parts, id, policy);
    const record = current?.record;
    if (current === null || record === null || record === undefined) {
      return { done: change.as === 'released' && current === null };
    }
    if (fenceOf(record, current.revision) !== fence) return { done: false };
    if (record.state !== 'pending' && record.state !== 'in_doubt') {
      return { done: record.state === change.as && record.resolution === null };
    }
    if (record.state === 'pending' && isReleased(record)) return { done: change.as === 'released' };
    const isDoubted = record.state === 'in_doubt';
    if (isDoubted) {
      const to = change.as === 'renewed' ? 'pending' : change.as;
      await auditLateCommit(parts, id, record.attempt, to);
    }
    const next = await nextRecord(parts, record, fence, policy, change);
    const prepared = next === null ? null : prepare(id, next);
    const result = await swapRecord(parts, 'settle', policy, id, current.revision, prepared);
    if (!result.won) continue;
    if (isDoubted) parts.observe({ type: 'doubt_resolved', id, by: 'attempt' });
    if (change.as === 'released') parts.observe({ type: 'released', id });
    if (next === null) return { done: true };
    if (next.state === 'pending') return { done: true, leaseUntil: next.leaseUntil };
    const answer = await answerOf(parts, next);
    if (answer !== null) parts.near.remember(id, answer);
    parts.observe({ type: 'settled', id, state: next.state, attempt: record.attempt });
    return { done: true };
  }
}

/** A reserved attempt that was put in doubt and speaks up again is pending once more. */
function revived(
  record: PendingRecord | InDoubtRecord,
  policy: Policy,
  now: EpochMs,
): PendingRecord {
  if (record.state === 'pending') return record;
  const { reason: _reason, since: _since, ...kept } = record;
  const keepUntil = now + policy.keepCommittedMs;
  return { ...kept, state: 'pending', leaseUntil: 1, onLapse: 'in_doubt', keepUntil };
}

async function nextRecord(
  parts: EngineParts,
  record: PendingRecord | InDoubtRecord,
  fence: Revision,
  policy: Policy,
  change: FencedChange,
): Promise<PendingRecord | SettledRecord | null> {
  const now = parts.clock.now();
  const held = revived(record, policy, now);
  if (change.as === 'renewed') return renewRecord(held, fence, held.steps, policy, now);
  if (change.as === 'released') return releaseRecord(held, fence, false);
  const kept = await packOutcome(parts, change.outcome, policy.packAboveBytes);
  const settledAt = parts.clock.settlingNow();
  return settleRecord(held, fence, change.as, kept, keepMsOf(policy, change.as), settledAt);
}

/** A claim that could have lapsed while the store was answering is renewed before anybody acts on it. */
async function standsStill(
  parts: EngineParts,
  operation: Pick<Operation, 'policy'>,
  held: Claim,
): Promise<boolean> {
  if (held.isFresh) return true;
  const stale = await renewStale(operation, held);
  if (stale instanceof Error) {
    await giveBack(parts, held, false);
    throw stale;
  }
  return stale === null;
}

async function look(parts: EngineParts, id: OperationId, policy: Policy) {
  return understand(parts, id, await callStore(parts, 'read', policy, () => parts.store.read(id)));
}
