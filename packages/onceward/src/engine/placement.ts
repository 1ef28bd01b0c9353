import { plainOutcome } from './answer.ts';
import type { PlacedRecord } from './operation.ts';
import { callStore, type EngineParts, prepare, understand } from './parts.ts';
import { type EffectKind, onLapseOf, type Policy } from './policy.ts';
import type { OperationId, OperationRecord, Outcome, Step } from './record.ts';
import type { RecordStore } from './record-store.ts';
import type { DurationMs } from './units.ts';

/** Something to be done later, by whoever claims it: a record that exists before its first attempt. */
export interface Work {
  readonly id: OperationId;
  readonly fingerprint: string;
  readonly effect: EffectKind;
  /** What the attempts find as steps already done; at least one, or there would be nothing to keep. */
  readonly steps: readonly [Step, ...Step[]];
  /** How long it waits for its first attempt. */
  readonly keepMs: DurationMs;
}

/** Something that was done elsewhere and is only to be known here. */
export interface DoneWork {
  readonly id: OperationId;
  readonly fingerprint: string;
  readonly outcome: Outcome;
  readonly keepMs: DurationMs;
}

/** `null`: the id is taken, by an earlier call of the same work as a rule. Nothing was changed. */
export type Placed = PlacedRecord | null;

/**
 * Writes a record that nobody has claimed. It looks like one whose attempt gave back its claim after some steps, and
 * is taken up in the same way. A lost reply is settled by placing again: the id is the work's own.
 */
export async function placeWork(
  parts: EngineParts,
  store: RecordStore,
  work: Work | DoneWork,
  policy: Pick<Policy, 'storeTimeoutMs'>,
): Promise<Placed> {
  const next = prepare(work.id, 'steps' in work ? waiting(parts, work) : done(parts, work));
  const result = await callStore(parts, 'claim', policy, () => store.swap(work.id, null, next));
  if (result.won) return { revision: result.revision, steps: 'steps' in work ? work.steps : [] };
  // Read for its events alone: what cannot be read is told, and stays as it is.
  understand(parts, work.id, result.current);
  return null;
}

function waiting(parts: EngineParts, work: Work): OperationRecord {
  const now = parts.world.now();
  return {
    state: 'pending',
    fingerprint: work.fingerprint,
    owner: parts.nextOwner(),
    attempt: 0,
    createdAt: now,
    steps: work.steps,
    fence: 0,
    leaseUntil: 0,
    onLapse: onLapseOf(work.effect),
    keepUntil: now + work.keepMs,
  };
}

function done(parts: EngineParts, work: DoneWork): OperationRecord {
  const now = parts.world.now();
  return {
    state: 'committed',
    fingerprint: work.fingerprint,
    owner: parts.nextOwner(),
    attempt: 0,
    createdAt: now,
    steps: [],
    fence: 0,
    outcome: plainOutcome(work.outcome),
    settledAt: now,
    keepUntil: now + work.keepMs,
    resolution: null,
  };
}
