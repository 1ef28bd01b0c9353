import { checkOutcome } from '../input.ts';
import { NearAnswer } from '../near/near-tier.ts';
import type { Execution, Operation } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import type { Policy } from '../policy.ts';
import { isReleased } from '../record/decide.ts';
import {
  fenceOf,
  keepMsOf,
  releaseRecord,
  renewRecord,
  reviveRecord,
  settleRecord,
} from '../record/transitions.ts';
import type {
  InDoubtRecord,
  OperationId,
  Outcome,
  PendingRecord,
  Revision,
  SettledRecord,
  SettledState,
  Step,
} from '../record.ts';
import { readRecord } from '../store-access/store-calls.ts';
import type { EpochMs } from '../units.ts';
import { answerOf, packOutcome, refuse, replay } from './answer.ts';
import type { Claim } from './claim.ts';
import { writeOwn } from './doubt.ts';
import { Driver } from './driver.ts';
import { Rounds } from './rounds.ts';
import { giveBack } from './settlement.ts';

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
  | { readonly decision: Unclaimed };

type Unclaimed = 'in_progress' | 'mismatch' | 'in_doubt' | 'expired';

export async function reserve(
  parts: EngineParts,
  operation: Omit<Operation, 'signal' | 'probe'>,
): Promise<ReserveResult> {
  await parts.clock.ready();
  const { id, fingerprint } = operation;
  const near = parts.near.find(id, fingerprint, parts.clock.retentionNow());
  if (near === 'mismatch') return toReserveResult(refuse(parts, id, 'mismatch'));
  if (near instanceof NearAnswer) return toReserveResult(replay(parts, id, near, true));
  const arrivedAt = parts.world.elapsed();
  return new Promise((resolve, reject) => {
    new ReserveDriver(parts, operation, arrivedAt, resolve, reject).begin();
  });
}

/** Hands the claim to its caller. */
class ReserveDriver extends Driver<ReserveResult> {
  protected override held(claim: Claim): void {
    const { id, attempt } = claim;
    this.parts.observe({ type: 'claimed', id, attempt });
    this.#hand(claim).catch(this.reject);
  }

  async #hand(claim: Claim): Promise<void> {
    const cause = await claim.refresh();
    if (cause === 'lost') return this.follow(this.read());
    if (cause !== null) {
      await giveBack(this.parts, claim, false);
      throw cause;
    }
    const { fence, attempt, record } = claim;
    const { leaseUntil, steps } = record;
    this.resolve({ decision: 'claimed', fence, attempt, leaseUntil, steps });
  }

  protected override end(execution: Execution, answer: NearAnswer | null = null): void {
    if (answer !== null) this.parts.near.remember(this.operation.id, answer);
    this.resolve(toReserveResult(execution));
  }
}

function toReserveResult(execution: Execution): ReserveResult {
  if (execution.kind === 'replayed') {
    const { state, outcome, attempt, settledAt } = execution;
    return { decision: 'replay', state, outcome, attempt, settledAt };
  }
  const { reason } = execution as Extract<Execution, { kind: 'refused' }>;
  return { decision: reason as Unclaimed };
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
    const current = await readRecord(parts, policy, id);
    const record = current?.record;
    if (current === null || record === null || record === undefined) {
      return { done: change.as === 'released' && current === null };
    }
    if (fenceOf(record, current.revision) !== fence) return { done: false };
    if (record.state !== 'pending' && record.state !== 'in_doubt') {
      return { done: record.state === change.as && record.resolution === null };
    }
    if (record.state === 'pending' && isReleased(record)) return { done: change.as === 'released' };
    const { revision } = current;
    const { attempt } = record;
    const own = { revision, attempt, isDoubted: record.state === 'in_doubt' };
    const next = await nextRecord(parts, record, fence, policy, change);
    const { won } = await writeOwn(parts, 'settle', policy, id, own, next);
    if (!won) continue;
    if (change.as === 'released') parts.observe({ type: 'released', id });
    if (next === null) return { done: true };
    if (next.state === 'pending') return { done: true, leaseUntil: next.leaseUntil };
    const answer = await answerOf(parts, next);
    if (answer !== null) parts.near.remember(id, answer);
    parts.observe({ type: 'settled', id, state: next.state, attempt });
    return { done: true };
  }
}

async function nextRecord(
  parts: EngineParts,
  record: PendingRecord | InDoubtRecord,
  fence: Revision,
  policy: Policy,
  change: FencedChange,
): Promise<PendingRecord | SettledRecord | null> {
  const now = parts.clock.now();
  const held = reviveRecord(record, policy, now);
  if (change.as === 'renewed') return renewRecord(held, fence, held.steps, policy, now);
  if (change.as === 'released') return releaseRecord(held, fence, false);
  const kept = await packOutcome(parts, change.outcome, policy.packAboveBytes);
  const settledAt = parts.clock.settlingNow();
  return settleRecord(held, fence, change.as, kept, keepMsOf(policy, change.as), settledAt);
}
