import { type Execution, NOT_RETAINED, type Outcome, type ReserveResult } from 'onceward';
import type { Kept } from '../record-table.ts';
import type { Call, SettledFact } from './case-file.ts';
import { textOf } from './outcome-text.ts';

/** One caller's answer, checked against what is true. Returns the complaint, or `null`. */
export function judgeAnswer(call: Call, execution: Execution, current: Kept | null): string | null {
  switch (execution.kind) {
    case 'executed':
      return judgeExecuted(call, execution);
    case 'replayed':
      return judgeReplay(call, execution);
    case 'refused':
      return judgeRefusal(call, execution.reason, current);
  }
}

function judgeExecuted(
  call: Call,
  execution: Extract<Execution, { kind: 'executed' }>,
): string | null {
  const { file } = call;
  const { settlement, fence, recorded } = execution;
  if (!call.begun) return 'a caller was told "executed" though its effect never began';
  if (!('outcome' in settlement) || !recorded) return null;
  const fact = file.settled.find((settled) => settled.fence === fence && settled.byAttempt);
  if (fact === undefined) return 'an answer was given before it was durable';
  if (fact.state !== settlement.as) return 'the answer given is not the answer kept';
  if (fact.retained && fact.outcome !== textOf(settlement.outcome)) {
    return 'the answer given is not the answer kept';
  }
  return judgeTruth(call, fact);
}

function judgeReplay(
  call: Call,
  answer: {
    readonly owner?: string;
    readonly state: 'committed' | 'rejected';
    readonly outcome: Outcome;
  },
): string | null {
  const { file, arrival } = call;
  const { owner, state, outcome } = answer;
  const text = textOf(outcome);
  const mine = file.settled.filter(
    (fact) =>
      fact.state === state &&
      (owner === undefined || fact.owner === owner) &&
      (outcome.contentType === NOT_RETAINED ? !fact.retained : fact.outcome === text),
  );
  if (mine.length === 0) return 'an answer was replayed that was never kept for this operation';
  const asked = mine.filter((fact) => fact.fingerprint === arrival.fingerprint);
  if (asked.length === 0) return 'the answer to another request was replayed';
  // The clock may have been set back while the call was under way.
  const { woken } = call.life;
  const atWaking = woken.at >= call.startedAt ? woken.retention : Infinity;
  const retention = Math.min(call.retentionAtStart, call.life.retention, atWaking);
  const fresh = asked.filter((fact) => {
    // A waiting caller may get the answer, however soon it expired.
    const runner = file.attempts.get(fact.fence)?.begun;
    const awaited = Math.max(fact.appliedAt, runner?.endedAt ?? 0) >= call.startedAt;
    return fact.keepUntil > retention || awaited;
  });
  if (fresh.length === 0) return 'an expired answer was replayed';
  return judgeTruth(call, fresh[0]!);
}

/** An answer "committed" means that it has happened. */
function judgeTruth(call: Call, fact: SettledFact): string | null {
  if (fact.state !== 'committed' || !fact.byAttempt) return null;
  const attempt = call.file.attempts.get(fact.fence);
  if (attempt === undefined) return 'an answer was kept without a claim';
  return attempt.happened > 0 ? null : 'an effect was called committed though it never happened';
}

/** These say that nothing was done for this caller. */
const NOTHING_DONE = new Set(['store_unavailable', 'deadline', 'over_quota']);

function judgeRefusal(
  call: Call,
  reason: Extract<Execution, { kind: 'refused' }>['reason'],
  current: Kept | null,
): string | null {
  const { file, arrival, life } = call;
  // A transaction that was rolled back did nothing, however far its effect had come.
  if (NOTHING_DONE.has(reason) && call.begun && arrival.via !== 'transaction') {
    return `told ${reason} though its effect had begun`;
  }
  switch (reason) {
    case 'mismatch': {
      const other = [...file.attempts.values()].some(
        ({ fingerprint }) => fingerprint !== arrival.fingerprint,
      );
      return other ? null : 'a mismatch with nothing that ever was';
    }
    case 'in_doubt':
      return file.doubted ? null : 'told "in doubt" though there was no doubt';
    case 'in_progress': {
      if (hadSettled(call, current)) return 'told "in progress" of what had settled before it came';
      const alone = file.calls.every(
        (other) => other === call || other.ended || other.life !== life,
      );
      const orphan =
        alone &&
        current?.record.state === 'pending' &&
        life.firstRevision !== null &&
        current.revision < life.firstRevision;
      return orphan && !current.corrupted ? 'a claim of an earlier life was waited for' : null;
    }
    default:
      return null;
  }
}

/** It settled, and everybody of this process had been answered, before this call came; nothing has gone wrong since. */
function hadSettled(call: Call, current: Kept | null): boolean {
  const { file, life, startedAt, arrival } = call;
  if (current === null || current.corrupted) return false;
  if (call.aborted || !call.wasCalm() || life.missedMs > 0) return false;
  const { record } = current;
  if (record.state !== 'committed' && record.state !== 'rejected') return false;
  const isFresh = record.fingerprint === arrival.fingerprint && record.keepUntil > life.retention;
  const runs = file.calls.some(
    (other) => other.life === life && other.begun && other.endedAt >= startedAt,
  );
  return isFresh && !runs && current.appliedAt < startedAt;
}

export function judgeReserved(
  call: Call,
  result: ReserveResult,
  current: Kept | null,
): string | null {
  const { file, arrival } = call;
  switch (result.decision) {
    case 'claimed': {
      const attempt = file.attempts.get(result.fence);
      if (attempt === undefined) return 'a reservation was granted that the store does not know';
      if (attempt.fingerprint !== arrival.fingerprint) return 'a reservation of another request';
      return attempt.reserver === null ? null : 'a reservation was granted twice';
    }
    case 'replay':
      return judgeReplay(call, result);
    default:
      return judgeRefusal(call, result.decision, current);
  }
}
