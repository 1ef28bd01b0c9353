import { answerOf, refuse, replay } from './answer.ts';
import { type Ended, runClaimed } from './attempt.ts';
import { Claim } from './claim.ts';
import { type Current, type Decision, decide, isHeldBy } from './decide.ts';
import { OncewardError, StoreError } from './errors.ts';
import { mayBeForgotten } from './first-sent.ts';
import { auditLateCommit } from './late-commit.ts';
import type { Run } from './near-tier.ts';
import type { Effect, Execution, Operation } from './operation.ts';
import { callStore, type EngineParts, prepare, soundly, swapRecord, understand } from './parts.ts';
import { askProbe } from './probe.ts';
import type { PendingRecord, Revision } from './record.ts';
import type { NextRecord, SwapResult } from './record-store.ts';
import { Rounds } from './rounds.ts';
import { claimRecord, doubtRecord, fenceOf, releaseRecord } from './transitions.ts';
import type { DurationMs } from './units.ts';
import { waitForChange } from './wait.ts';

/** A second is long enough not to storm, and most operations are done by then. */
export const RETRY_SOON = { retryAfterMs: 1_000 };

/** Follows what it has found until there is a result. */
export async function approach(
  parts: EngineParts,
  operation: Operation,
  effect: Effect,
  run: Run,
  visit: Visit,
  first: Found | Promise<Found>,
): Promise<Ended> {
  let next = first;
  for (;;) {
    let found: Found;
    try {
      found = await next;
    } catch (error) {
      if (visit.ran && isStoreError(error)) {
        // Taken over, and the winner's answer is out of reach: this arrival must not run again, protected or not.
        const details = { ...RETRY_SOON, cause: error };
        return bare(refuse(parts, operation.id, 'fence_lost', details));
      }
      return storeFailed(parts, operation, effect, error);
    }
    if (found instanceof Claim) {
      run.markClaimed();
      visit.ran = true;
      const ended = await runClaimed(parts, operation, effect, found);
      if (ended !== 'lost') return ended;
      // Taken over while it ran: the winner's answer is the only one there is.
      next = read(parts, operation);
      continue;
    }
    if (found !== null && 'execution' in found) return found;
    const decision = decide(found, operation, operation.policy, parts.clock.time());
    next = followOn(parts, operation, decision, visit);
  }
}

/** Carries out a decision for a caller that is still there, as often as a sound store can make necessary. */
async function followOn(
  parts: EngineParts,
  operation: Operation,
  decision: Decision,
  visit: Visit,
): Promise<Found> {
  const writes = decision.kind === 'claim' || decision.kind === 'doubt';
  if (writes) {
    visit.rounds ??= new Rounds(parts.world);
    await visit.rounds.next();
  }
  if (operation.signal?.aborted) {
    if (decision.kind === 'wait') return bare(refuseInProgress(parts, operation, visit.arrivedAt));
    if (writes) return bare(refuse(parts, operation.id, visit.ran ? 'fence_lost' : 'deadline'));
  }
  return follow(parts, operation, decision, visit);
}

/** What one arrival has been through. */
export interface Visit {
  readonly arrivedAt: DurationMs;
  probed: boolean;
  ran: boolean;
  /** For another process. */
  waited: boolean;
  rounds: Rounds | null;
}

export type Found = Claim | Current | Ended | null;

/** Carries out one decision: a claim, a result, or what is to be decided upon next. */
function follow(
  parts: EngineParts,
  operation: Operation,
  decision: Decision,
  visit: Visit,
): Found | Promise<Found> {
  switch (decision.kind) {
    case 'claim':
      // An effect is never run twice for one arrival.
      if (visit.ran) return bare(refuse(parts, operation.id, 'fence_lost', RETRY_SOON));
      return claim(parts, operation, decision);
    case 'replay':
      return giveAgain(parts, operation, decision, visit);
    case 'wait':
      return waitAndRead(parts, operation, decision, visit);
    case 'doubt':
      return recordDoubt(parts, operation, decision);
    case 'refuse':
      if (decision.reason === 'mismatch' || decision.reason === 'expired') {
        return bare(refuse(parts, operation.id, decision.reason));
      }
      if (decision.reason === 'in_progress') {
        return bare(refuseInProgress(parts, operation, visit.arrivedAt));
      }
      if (operation.probe === undefined || visit.probed) {
        return bare(refuse(parts, operation.id, 'in_doubt'));
      }
      visit.probed = true;
      return askProbe(parts, operation, operation.probe, decision);
  }
}

async function giveAgain(
  parts: EngineParts,
  operation: Operation,
  { record }: Extract<Decision, { kind: 'replay' }>,
  { arrivedAt, waited }: Visit,
): Promise<Ended> {
  const answer = await answerOf(parts, record);
  if (answer === null) return bare(refuse(parts, operation.id, 'in_doubt'));
  if (waited) tellWaited(parts, operation, arrivedAt);
  return { execution: replay(parts, operation.id, answer, false), answer };
}

async function waitAndRead(
  parts: EngineParts,
  operation: Operation,
  decision: Extract<Decision, { kind: 'wait' }>,
  visit: Visit,
): Promise<Found> {
  const { arrivedAt } = visit;
  const left = budgetLeft(parts, operation, arrivedAt);
  if (left <= 0) return bare(refuseInProgress(parts, operation, arrivedAt));
  visit.waited = true;
  await waitForChange(parts, operation, decision, left);
  return read(parts, operation);
}

/** The claim, or what is there instead. */
export async function claim(
  parts: EngineParts,
  operation: Operation,
  decision: ClaimDecision,
): Promise<Claim | Current | null> {
  const { id, policy } = operation;
  const claiming = prepareClaim(parts, operation, decision);
  let result: SwapResult;
  try {
    result = await callStore(parts, 'claim', policy, () => {
      claiming.swap = soundly(parts.store.swap(id, claiming.expected, claiming.next));
      return claiming.swap;
    });
  } catch (error) {
    return claimAfterError(parts, operation, claiming, error);
  }
  return claimAfterSwap(parts, operation, claiming, result);
}

export type ClaimDecision = Extract<Decision, { kind: 'claim' }>;

/** A claim on its way to the store. */
export interface Claiming {
  readonly expected: Revision | null;
  readonly record: PendingRecord;
  readonly next: NextRecord;
  readonly claimedAt: DurationMs;
  /** The store's own answer, which may come after the engine has stopped waiting for it. */
  swap: Promise<SwapResult> | null;
}

export function prepareClaim(
  parts: EngineParts,
  operation: Operation,
  { expected, attempt, steps }: ClaimDecision,
): Claiming {
  const record = claimRecord(operation, parts.nextOwner(), attempt, steps, parts.clock.now());
  const claimedAt = parts.world.elapsed();
  const next = prepare(operation.id, record);
  parts.world.crashPoint?.('before-claim');
  return { expected, record, next, claimedAt, swap: null };
}

export function claimAfterSwap(
  parts: EngineParts,
  operation: Operation,
  { record, claimedAt }: Claiming,
  result: SwapResult,
): Claim | Current | null {
  const { id, policy } = operation;
  parts.world.crashPoint?.('after-claim');
  let revision: Revision;
  if (result.won) {
    revision = result.revision;
  } else {
    const current = understand(parts, id, result.current);
    // A driver that sends again after a lost connection is told that it lost: against itself.
    if (!isHeldBy(current, record.owner)) return current;
    revision = current.revision;
  }
  parts.observe({ type: 'claimed', id, attempt: record.attempt });
  return new Claim(parts, policy, id, record, revision, claimedAt);
}

/** A lost reply is settled by looking whose record it is. */
export async function claimAfterError(
  parts: EngineParts,
  operation: Operation,
  claiming: Claiming,
  error: unknown,
): Promise<Claim | Current | null> {
  if ((error as StoreError).applied === 'no') throw error;
  const { record } = claiming;
  const found = await readAfterLostReply(parts, operation, claiming, error);
  // Ours, and still ours alone: somebody may have doubted it already, and somebody else answered that.
  if (!isHeldBy(found, record.owner)) return found;
  return claimAfterSwap(parts, operation, claiming, { won: true, revision: found.revision });
}

/** A reply that was lost early leaves time to look; a call that ran out of time does not. */
async function readAfterLostReply(
  parts: EngineParts,
  operation: Operation,
  claiming: Claiming,
  error: unknown,
): Promise<Current | null> {
  const spent = parts.world.elapsed() - claiming.claimedAt;
  try {
    if (spent >= operation.policy.storeTimeoutMs / 2) throw error;
    const found = await read(parts, operation);
    // What was there before proves nothing: the claim may still be on its way.
    if ((found?.revision ?? null) === claiming.expected) throw error;
    return found;
  } catch {
    abandon(parts, operation, claiming);
    throw error;
  }
}

/**
 * The caller is about to be told that the store did not answer, so the effect will not run. Should the claim have
 * reached the store all the same, it is taken back in the background: otherwise it would block the key until it lapses,
 * and then be doubted, though nothing ran. A call that failed may have been sent and arrive later, so the look is
 * repeated for as long as the lease.
 */
function abandon(parts: EngineParts, operation: Operation, claiming: Claiming): void {
  const { id, policy } = operation;
  const { record, swap, claimedAt } = claiming;
  let mayStillCome = swap !== null;
  const ended = () => {
    mayStillCome = false;
  };
  swap?.then(ended, (error: unknown) => {
    if (error instanceof StoreError && error.applied === 'no') ended();
  });
  parts.abandoned.add(async () => {
    const isLast = !mayStillCome || parts.world.elapsed() - claimedAt > policy.leaseMs;
    const current = await read(parts, operation);
    const isDoubted =
      current?.record?.state === 'in_doubt' && current.record.owner === record.owner;
    if (!isDoubted && !isHeldBy(current, record.owner)) return isLast;
    parts.world.crashPoint?.('before-release');
    if (isDoubted) await auditLateCommit(parts, id, record.attempt, 'released');
    const released = releaseRecord(record, current.revision, false);
    const next = released === null ? null : prepare(id, released);
    const result = await swapRecord(parts, 'release', policy, id, current.revision, next);
    if (result.won && isDoubted) parts.observe({ type: 'doubt_resolved', id, by: 'attempt' });
    return result.won;
  });
}

async function recordDoubt(
  parts: EngineParts,
  operation: Operation,
  decision: Extract<Decision, { kind: 'doubt' }>,
): Promise<Current | null> {
  const { id, policy } = operation;
  const now = parts.clock.now();
  const record = doubtRecord(
    decision.record,
    fenceOf(decision.record, decision.revision),
    'lease_lapsed',
    now,
  );
  const next = prepare(id, record);
  const result = await swapRecord(parts, 'doubt', policy, id, decision.revision, next);
  parts.world.crashPoint?.('after-doubt');
  if (!result.won) return understand(parts, id, result.current);
  parts.observe({ type: 'in_doubt', id, reason: record.reason });
  return { revision: result.revision, record, orphaned: false };
}

export async function read(parts: EngineParts, operation: Operation): Promise<Current | null> {
  const stored = await callStore(parts, 'read', operation.policy, () =>
    parts.store.read(operation.id),
  );
  return understand(parts, operation.id, stored);
}

/** Nothing is known of the record. Refuse, or run unprotected where the route chose that. */
export async function storeFailed(
  parts: EngineParts,
  operation: Operation,
  effect: Effect,
  error: unknown,
): Promise<Ended> {
  if (!isStoreError(error)) throw error;
  const isTooOld = mayBeForgotten(operation.firstSentAt, operation.policy, parts.clock.time());
  if (isTooOld || operation.policy.onStoreDown === 'refuse') {
    const details = { ...RETRY_SOON, cause: error };
    return bare(refuse(parts, operation.id, 'store_unavailable', details));
  }
  if (operation.signal?.aborted) return bare(refuse(parts, operation.id, 'deadline'));
  parts.observe({ type: 'unprotected', id: operation.id });
  const settlement = await effect({
    id: operation.id,
    number: 1,
    fence: 0,
    signal: new AbortController().signal,
    downstreamKey: parts.downstreamKey(operation.id),
    step: (_name, work) => work(),
  });
  const unkept = { recorded: false, keptUntil: null } as const;
  return bare({ kind: 'executed', settlement, attempt: 1, fence: 0, ...unkept });
}

function isStoreError(error: unknown): boolean {
  return error instanceof OncewardError && error.code.startsWith('ONCE_STORE_');
}

export function refuseInProgress(
  parts: EngineParts,
  operation: Operation,
  arrivedAt: DurationMs,
): Execution {
  const waitedMs = parts.world.elapsed() - arrivedAt;
  parts.observe({ type: 'in_progress', id: operation.id, waitedMs });
  return { kind: 'refused', reason: 'in_progress', retry: 'same_key', ...RETRY_SOON };
}

export function budgetLeft(
  parts: EngineParts,
  operation: Operation,
  arrivedAt: DurationMs,
): DurationMs {
  return operation.policy.waitMs - (parts.world.elapsed() - arrivedAt);
}

export function tellWaited(parts: EngineParts, operation: Operation, arrivedAt: DurationMs): void {
  const waitedMs = parts.world.elapsed() - arrivedAt;
  if (waitedMs > 0) parts.observe({ type: 'waited', id: operation.id, waitedMs });
}

function bare(execution: Execution): Ended {
  return { execution, answer: null };
}
