import { StoreError } from '../errors.ts';
import type { Operation } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import { type Current, isHeldBy } from '../record/decide.ts';
import { fenceOf, releaseRecord } from '../record/transitions.ts';
import type { PendingRecord, Revision } from '../record.ts';
import type { NextRecord, SwapResult } from '../record-store.ts';
import { readRecord } from '../store-access/store-calls.ts';
import type { DurationMs } from '../units.ts';
import { writeOwn } from './doubt.ts';

/** A claim on its way to the store. */
export interface Claiming {
  readonly expected: Revision | null;
  readonly record: PendingRecord;
  readonly next: NextRecord;
  readonly claimedAt: DurationMs;
  /** The store's own answer, which may come after the engine has stopped waiting for it. */
  swap: Promise<SwapResult> | null;
}

/**
 * What is there after a claim whose reply was lost. A reply that was lost early leaves time to read; a call that ran
 * out of time does not. Fails with the error where nothing can be learnt; then the claim is taken back.
 */
export async function readAfterLostReply(
  parts: EngineParts,
  { id, policy }: Operation,
  claiming: Claiming,
  error: unknown,
): Promise<Current | null> {
  if ((error as StoreError).applied === 'no') throw error;
  const spent = parts.world.elapsed() - claiming.claimedAt;
  try {
    if (spent >= policy.storeTimeoutMs / 2) throw error;
    const found = await readRecord(parts, policy, id);
    // What was there before proves nothing: the claim may still be on its way.
    if ((found?.revision ?? null) === claiming.expected) throw error;
    return found;
  } catch {
    takeBack(parts, { id, policy }, claiming);
    throw error;
  }
}

/**
 * The caller is about to be refused because the store did not answer, so the effect will not run. Should the claim have
 * reached the store all the same, it is taken back in the background: otherwise it would block the key until it lapses,
 * and then be doubted, though nothing ran. A call that failed may have been sent and arrive later, so the read is
 * repeated for as long as the lease.
 */
function takeBack(
  parts: EngineParts,
  { id, policy }: Pick<Operation, 'id' | 'policy'>,
  { record, swap, claimedAt }: Claiming,
): void {
  let mayStillCome = swap !== null;
  const ended = () => {
    mayStillCome = false;
  };
  swap?.then(ended, (error: unknown) => {
    if (error instanceof StoreError && error.applied === 'no') ended();
  });
  parts.abandoned.add(async () => {
    const isLast = !mayStillCome || parts.world.elapsed() - claimedAt > policy.leaseMs;
    const current = await readRecord(parts, policy, id);
    const isDoubted =
      current?.record?.state === 'in_doubt' && current.record.owner === record.owner;
    if (!isDoubted && !isHeldBy(current, record.owner)) return isLast;
    parts.world.crashPoint?.('before-release');
    const { revision } = current;
    const own = { revision, attempt: record.attempt, isDoubted };
    // The revision is that of the doubt, if there is one, and not the claim's own.
    const released = releaseRecord(record, fenceOf(current.record ?? record, revision), false);
    return (await writeOwn(parts, 'release', policy, id, own, released)).won;
  });
}
