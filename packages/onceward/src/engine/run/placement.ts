import { checkId } from '../input.ts';
import type { PlacedRecord } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import type { EffectKind } from '../policy.ts';
import { isOpen } from '../record/decide.ts';
import { doneRecord, placedRecord } from '../record/transitions.ts';
import type { OperationId, OperationRecord, Outcome, Revision, Step } from '../record.ts';
import type { RecordStore } from '../record-store.ts';
import {
  type Bound,
  callStore,
  prepare,
  soundly,
  understand,
} from '../store-access/store-calls.ts';
import type { DurationMs } from '../units.ts';
import { plainOutcome } from './answer.ts';

/** Something to be done later: a record that exists before its first attempt. */
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
  /** What comes of it: both are written or neither. Only for stores that can write several records at once. */
  readonly opens?: Work;
  readonly id: OperationId;
  readonly fingerprint: string;
  readonly outcome: Outcome;
  readonly keepMs: DurationMs;
}

/**
 * The record that waits to be claimed, where there is one. `null`: the id is taken, by an earlier call of the same work
 * as a rule. Nothing was changed.
 */
export type Placed = PlacedRecord | null;

/**
 * Writes a record that nobody has claimed. It looks like one whose attempt gave back its claim after some steps, and
 * is taken up in the same way. A lost reply is settled by placing again: the id is the work's own.
 */
export async function placeWork(
  parts: EngineParts,
  store: RecordStore,
  work: Work | DoneWork,
  bound: Bound,
): Promise<Placed> {
  await parts.clock.ready();
  return 'opens' in work && work.opens !== undefined
    ? placeBoth(parts, store, work, work.opens, bound)
    : placeOne(parts, store, work, bound);
}

async function placeOne(
  parts: EngineParts,
  store: RecordStore,
  work: Work | DoneWork,
  bound: Bound,
): Promise<Placed> {
  const next = prepare(work.id, 'steps' in work ? waiting(parts, work) : done(parts, work));
  const result = await callStore(parts, 'claim', bound, () =>
    soundly(store.swap(work.id, null, next)),
  );
  if (result.won) return placed(result.revision, work);
  // What cannot be read stays as it is.
  const current = understand(parts, work.id, result.current);
  const record = current?.record ?? null;
  if (current === null || record === null || !isOpen(record)) return null;
  const over = await callStore(parts, 'claim', bound, () =>
    soundly(store.swap(work.id, current.revision, next)),
  );
  return over.won ? placed(over.revision, work) : null;
}

function placed(revision: Revision, work: Work | DoneWork): PlacedRecord {
  return { revision, steps: 'steps' in work ? work.steps : [] };
}

/** An answer and the work that it promises. A lost reply is settled by the next arrival: there are both or neither. */
async function placeBoth(
  parts: EngineParts,
  store: RecordStore,
  answer: DoneWork,
  work: Work,
  bound: Bound,
): Promise<Placed> {
  checkId(work.id);
  const { id } = answer;
  const records = [
    { id, next: prepare(id, done(parts, answer)) },
    { id: work.id, next: prepare(work.id, waiting(parts, work)) },
  ];
  parts.world.crashPoint?.('before-claim');
  const revisions = await callStore(parts, 'claim', bound, () => {
    if (store.insertAll === undefined) throw new Error('the store writes one record at a time');
    return store.insertAll(records);
  });
  parts.world.crashPoint?.('after-settle');
  const revision = revisions?.[1];
  if (revision === undefined) return null;
  parts.observe({ type: 'claimed', id, attempt: 1 });
  parts.observe({ type: 'settled', id, state: 'committed', attempt: 1 });
  return { revision, steps: work.steps };
}

function waiting(parts: EngineParts, work: Work): OperationRecord {
  return placedRecord(work, parts.nextOwner(), parts.clock.now());
}

function done(parts: EngineParts, work: DoneWork): OperationRecord {
  const outcome = plainOutcome(work.outcome);
  return doneRecord(work, outcome, parts.nextOwner(), parts.clock.settlingNow());
}
