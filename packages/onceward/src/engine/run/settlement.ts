import { checkOutcome } from '../input.ts';
import type { Operation, Settlement } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import { keepMsOf, settledLater, settleRecord } from '../record/transitions.ts';
import { type KeptOutcome, NOT_RETAINED, type Outcome, type SettledRecord } from '../record.ts';
import { packOutcome, plainOutcome } from './answer.ts';
import type { Claim } from './claim.ts';

/** A settlement that has an answer to keep. */
export type Answered = Extract<Settlement, { readonly outcome: Outcome }>;

/** An answer on its way into the store. */
export interface Settling {
  readonly settlement: Answered;
  readonly outcome: Outcome;
  readonly record: SettledRecord;
}

/** What is to be written. Waits only for an answer that is long enough to be packed. */
export function settlingOf(
  parts: EngineParts,
  operation: Operation,
  claim: Claim,
  settlement: Answered,
): Settling | Promise<Settling> {
  const { maxOutcomeBytes, packAboveBytes } = operation.policy;
  const outcome = retained(settlement.outcome, maxOutcomeBytes);
  const settling = (kept: KeptOutcome) =>
    settlingWith(parts, operation, claim, settlement, outcome, kept);
  if (outcome.bytes.length <= packAboveBytes) return settling(plainOutcome(outcome));
  return packOutcome(parts, outcome, packAboveBytes).then(settling);
}

/** The same without the answer itself, for a store that cannot take it. `null`: there is nothing to leave out. */
export function withoutOutcome(
  parts: EngineParts,
  operation: Operation,
  claim: Claim,
  { settlement, outcome }: Settling,
): Settling | null {
  if (outcome === UNKEPT) return null;
  return settlingWith(parts, operation, claim, settlement, UNKEPT, UNKEPT);
}

function settlingWith(
  parts: EngineParts,
  { policy }: Operation,
  claim: Claim,
  settlement: Answered,
  outcome: Outcome,
  kept: KeptOutcome,
): Settling {
  const keepMs = keepMsOf(policy, settlement.as);
  const now = parts.clock.settlingNow();
  const record = settleRecord(claim.record, claim.fence, settlement.as, kept, keepMs, now);
  parts.world.crashPoint?.('before-settle');
  return { settlement, outcome, record };
}

const UNKEPT: KeptOutcome = {
  contentType: NOT_RETAINED,
  codec: 0,
  size: 0,
  bytes: new Uint8Array(0),
};

/** An effect that has happened is recorded even when its answer is too long to keep. */
function retained(outcome: Outcome, maxBytes: number): Outcome {
  try {
    checkOutcome(outcome, maxBytes);
    return outcome;
  } catch {
    return UNKEPT;
  }
}

/**
 * The store is out of reach: the record is written when it is back. Which try it was that came through, only the store
 * knows, so the near tier learns the answer from there.
 */
export function settleLater(parts: EngineParts, claim: Claim, record: SettledRecord): void {
  const { id, attempt } = claim;
  parts.observe({ type: 'unrecorded', id });
  const taken = parts.late.add(async () => {
    const late = settledLater(record, parts.clock.settlingNow());
    if ((await claim.settleLate(late)) === 'written') {
      parts.observe({ type: 'settled', id, state: record.state, attempt });
    }
    return true;
  });
  if (!taken) parts.observe({ type: 'late_settle_dropped', id });
}

/** Frees the key. If the store cannot be reached now, it is tried later, or the lease lapses. */
export async function giveBack(
  parts: EngineParts,
  claim: Claim,
  mayHaveActed: boolean,
): Promise<void> {
  parts.world.crashPoint?.('before-release');
  await nowOrLater(parts, async () => {
    const written = await claim.release(mayHaveActed);
    if (written === 'written') parts.observe({ type: 'released', id: claim.id });
  });
}

/** Whether it is recorded already. */
export function putInDoubt(parts: EngineParts, claim: Claim): Promise<boolean> {
  return nowOrLater(parts, async () => {
    const reason = 'outcome_unknown';
    if ((await claim.doubt(reason)) !== 'written') return;
    parts.observe({ type: 'in_doubt', id: claim.id, reason });
  });
}

async function nowOrLater(parts: EngineParts, write: () => Promise<void>): Promise<boolean> {
  const attempt = async () => {
    await write();
    return true;
  };
  try {
    return await attempt();
  } catch {
    parts.late.add(attempt);
    return false;
  }
}

export const ERROR_TYPE = 'application/vnd.onceward.error+json';

export function describeError(error: unknown): Outcome {
  const thrown: Error & { code?: unknown } =
    error instanceof Error ? error : new Error(String(error));
  const { name, message, code } = thrown;
  const described = { name, message: message.slice(0, 2_000), code };
  return { contentType: ERROR_TYPE, bytes: new TextEncoder().encode(JSON.stringify(described)) };
}
