import type { OperationRecord } from 'onceward';
import { EPOCH, type Life } from '../life.ts';
import type { Kept, Write } from '../record-table.ts';
import type { AttemptFact, CaseFile } from './case-file.ts';

type Pending = Extract<OperationRecord, { state: 'pending' }>;
type Settled = Extract<OperationRecord, { settledAt: number }>;

/** No clock of any process has ever been as far back as this. */
const LONG_AGO = EPOCH - 86_400_000;

/** What the rules have to know beside the write itself. */
export interface Circumstances {
  readonly now: number;
  /** Since when nothing has gone wrong anywhere. */
  readonly calmSince: number;
  /** How long a write can be under way. */
  readonly underWayMs: number;
  /** How far apart the clocks of healthy processes can be. */
  readonly skewMs: number;
  readonly hasStoreClock: boolean;
}

/**
 * The arrows that a record may go, and who may send it there. Returns the complaint, or `null`.
 *
 * What clocks may do to it where the store has none: a wall clock that jumps ahead makes leases lapse early (then the
 * effect is taken over or doubted early, never run twice where that does harm); one that jumps back makes them last
 * longer. Retention is held against real time: no jump of any clock may shorten it.
 */
export function judgeWrite(file: CaseFile, write: Write, now: Circumstances): string | null {
  const { before, after } = write;
  if (write.revision <= file.lastRevision) return 'a revision was issued that does not rise';
  if (after !== null && 'keepUntil' in after.record && after.record.keepUntil < LONG_AGO) {
    return 'a record is kept until a time long gone';
  }
  if (before === null) return after === null ? null : judgeBirth(after);
  if (!before.corrupted) return judgeKnown(file, write, before, now);
  const complaint = judgeSpoilt(file, write, before, now);
  // A process that read it before it was damaged may still write as if it were not: the revision is the same.
  const unseen = before.spoiltAt + now.underWayMs >= now.now;
  return complaint !== null && unseen ? judgeKnown(file, write, before, now) : complaint;
}

function judgeKnown(file: CaseFile, write: Write, before: Kept, now: Circumstances): string | null {
  switch (before.record.state) {
    case 'pending':
      return judgeFromPending(file, write, before, before.record, now);
    case 'in_doubt':
      return judgeFromDoubt(file, write, before);
    default:
      return judgeFromSettled(file, write, before.record, now);
  }
}

function judgeBirth(after: Kept): string | null {
  const { record } = after;
  if (record.state !== 'pending') return `a record was born ${record.state}`;
  if (record.attempt !== 1) return 'the first attempt is not counted as the first';
  return record.steps.length === 0 ? null : 'a new record has steps of nobody';
}

/** Unreadable is in doubt: its own attempt may write over it, or an operator; time alone may not. */
function judgeSpoilt(
  file: CaseFile,
  write: Write,
  before: Kept,
  now: Circumstances,
): string | null {
  if (write.after !== null && write.after.record.owner === before.record.owner) return null;
  const settled = before.record.state === 'committed' || before.record.state === 'rejected';
  if (settled && isPromiseOver(file, before, now)) return null;
  if (hasAudit(file, write, 'purge')) return null;
  if (hasAudit(file, write, 'resolve')) return judgeVoid(file, before);
  if (write.after === null && isOwnRelease(file, write, before)) return null;
  return 'an unreadable record was treated as absent';
}

function judgeFromPending(
  file: CaseFile,
  write: Write,
  before: Kept,
  record: Pending,
  now: Circumstances,
): string | null {
  const { after } = write;
  if (after === null) {
    if (hasAudit(file, write, 'purge') || mayBeForgotten(write, record)) return null;
    const released = record.leaseUntil === 0;
    if (!released && isOwnRelease(file, write, before)) return judgeGivingBack(file, write, before);
    return 'a pending record was forgotten';
  }
  const next = after.record;
  if (next.owner !== record.owner) return judgeTakeOver(file, write, before, record, next, now);
  const changed = judgeSameAttempt(before, next);
  if (changed !== null) return changed;
  switch (next.state) {
    case 'pending':
      if (next.leaseUntil !== 0) return null;
      if (!isOwnRelease(file, write, before)) return 'a claim was given back by somebody else';
      return judgeGivingBack(file, write, before);
    case 'in_doubt':
      if (attemptOf(file, before)?.ending?.as === 'doubt') return null;
      if (record.onLapse !== 'in_doubt') return 'a claim that may be taken over was doubted';
      return judgeLapse(file, write, before, record, now);
    default:
      if (next.resolution !== null) return 'a verdict was given on a record that was not in doubt';
      return judgeSettle(file, before, next);
  }
}

function judgeTakeOver(
  file: CaseFile,
  write: Write,
  before: Kept,
  record: Pending,
  next: OperationRecord,
  now: Circumstances,
): string | null {
  if (next.state !== 'pending') return 'somebody else settled a pending record';
  const isFree = isOpen(record) || mayBeForgotten(write, record);
  if (isFree && next.attempt === 1) return null;
  if (next.fingerprint !== record.fingerprint) return 'another request took over';
  if (next.attempt !== record.attempt + 1) return 'a takeover does not count as the next attempt';
  const lost = judgeSteps(record, next);
  if (lost !== null) return lost;
  if (record.leaseUntil === 0) return null;
  if (record.onLapse === 'in_doubt') return 'an effect that must not be repeated was taken over';
  return judgeLapse(file, write, before, record, now);
}

/** A lease may be called lapsed by any process whose clock says so, unless its holder is alive and all is well. */
function judgeLapse(
  file: CaseFile,
  write: Write,
  before: Kept,
  record: Pending,
  now: Circumstances,
): string | null {
  const { actor } = write;
  const orphaned = actor.firstRevision !== null && before.revision < actor.firstRevision;
  if (!orphaned && record.leaseUntil > lapsedBy(actor, now))
    return 'a lease that holds was ignored';
  const attempt = attemptOf(file, before);
  const { leaseMs, storeTimeoutMs } = file.operation.policy;
  const quiet = 4 * leaseMs + 10 * storeTimeoutMs;
  const healthy =
    attempt?.actor.alive === true &&
    attempt.begun !== null &&
    attempt.ending === null &&
    now.calmSince + quiet < now.now;
  return healthy ? 'the lease of a healthy process lapsed' : null;
}

/** The clock that leases go by: the store's, where there is one. */
function lapsedBy(actor: Life, { now, hasStoreClock }: Circumstances): number {
  return hasStoreClock ? EPOCH + now : actor.latestWall;
}

function judgeFromDoubt(file: CaseFile, write: Write, before: Kept): string | null {
  const { after } = write;
  const purged = hasAudit(file, write, 'purge');
  const resolved = purged || hasAudit(file, write, 'resolve');
  if (after === null) {
    if (resolved) return purged ? null : judgeVoid(file, before);
    if (!isOwnRelease(file, write, before)) return 'a record in doubt vanished';
    return judgeGivingBack(file, write, before);
  }
  const next = after.record;
  if (isOpen(next)) {
    return resolved ? judgeVoid(file, before) : 'a doubt was voided without an audit';
  }
  if (next.owner !== before.record.owner) return 'somebody else claimed a record in doubt';
  const changed = judgeSameAttempt(before, next);
  if (changed !== null) return changed;
  if (next.state === 'committed' || next.state === 'rejected') {
    if (next.resolution !== null) return resolved ? null : 'a doubt was resolved without an audit';
    if (!hasAudit(file, write, 'late_commit')) return 'a late commit left no audit line';
    return judgeSettle(file, before, next);
  }
  if (next.state === 'pending' && next.leaseUntil === 0) {
    return isOwnRelease(file, write, before) ? null : 'a doubt was given back by somebody else';
  }
  return null;
}

/** Voided: for whichever request comes next. */
function isOpen(record: OperationRecord): boolean {
  return record.state === 'pending' && record.leaseUntil === 0 && record.fingerprint === '';
}

/** An operator who checked before resolving knew that it had not happened, and could not happen any more. */
function judgeVoid(file: CaseFile, before: Kept): string | null {
  const life = attemptOf(file, before)?.life;
  if (life === undefined || file.tainted) return null;
  const open = file.hasHappened(life) || file.mayHappen(life);
  return open ? 'a doubt was voided though it may have happened' : null;
}

function judgeFromSettled(
  file: CaseFile,
  write: Write,
  record: Settled,
  now: Circumstances,
): string | null {
  const { before, after } = write;
  if (hasAudit(file, write, 'purge')) return null;
  if (after === null || after.record.state === 'pending') {
    if (before !== null && isPromiseOver(file, before, now)) return null;
    return 'a settled answer was forgotten within its retention';
  }
  const next = after.record;
  const same =
    next.state === record.state &&
    next.owner === record.owner &&
    next.fence === record.fence &&
    next.settledAt === record.settledAt &&
    next.fingerprint === record.fingerprint &&
    next.outcome.bytes.length === record.outcome.bytes.length &&
    next.outcome.bytes.every((byte, index) => byte === record.outcome.bytes[index]);
  if (!same) return 'a settled record was changed';
  return hasAudit(file, write, 'extend') ? null : 'a settled record was written again';
}

/** An attempt settles once, with what its effect answered, after it answered. */
function judgeSettle(file: CaseFile, before: Kept, next: Settled): string | null {
  if (file.operation.effect.kind === 'transaction') return null;
  const ending = attemptOf(file, before)?.ending;
  if (ending === null || ending === undefined) return 'a record settled before its effect ended';
  if (ending.as !== 'settle') return `a record settled though its effect ended in ${ending.as}`;
  return ending.state === next.state ? null : `a record settled as ${next.state} by mistake`;
}

function judgeSameAttempt(before: Kept, next: OperationRecord): string | null {
  const { record, revision } = before;
  const fence = record.fence === 0 ? revision : record.fence;
  if (next.fence !== fence) return 'the fence of an attempt changed';
  if (next.attempt !== record.attempt) return 'the number of an attempt changed';
  if (next.fingerprint !== record.fingerprint) return 'the fingerprint of a record changed';
  return next.state === 'pending' || next.state === 'in_doubt' ? judgeSteps(record, next) : null;
}

function judgeSteps(record: OperationRecord, next: OperationRecord): string | null {
  const kept = record.steps.every((step) => next.steps.some(({ name }) => name === step.name));
  return kept ? null : 'a finished step was lost';
}

/** What was done and would do harm if done again is not given back. */
function judgeGivingBack(file: CaseFile, write: Write, before: Kept): string | null {
  const attempt = attemptOf(file, before);
  if (attempt === undefined) return null;
  if (write.after === null && file.hasHappened(attempt.life)) {
    return 'a key was freed for other requests though its effect had happened';
  }
  if (!file.isFragile) return null;
  if (attempt.happened > 0) return 'a claim was given back though its effect had happened';
  const kept = write.after?.record.steps ?? [];
  const forgotten = [...attempt.steps].filter((done) => !kept.some(({ name }) => name === done));
  return forgotten.length === 0 ? null : 'a claim was given back without a step that had happened';
}

/** Whether the claim was given back by its holder, and not voided or purged by an operator. */
export function isGivenBack(file: CaseFile, write: Write): boolean {
  const { before } = write;
  if (before === null || hasAudit(file, write, 'purge') || hasAudit(file, write, 'resolve')) {
    return false;
  }
  return isOwnRelease(file, write, before);
}

/** Given back by the attempt itself, or by its process, which knows that it will never begin. */
function isOwnRelease(file: CaseFile, write: Write, before: Kept): boolean {
  const attempt = attemptOf(file, before);
  if (attempt === undefined) return false;
  if (attempt.ending?.as === 'release') return true;
  return attempt.begun === null && attempt.reserver === null && attempt.actor === write.actor;
}

function mayBeForgotten(write: Write, record: Pending): boolean {
  const repeatable = record.leaseUntil === 0 || record.onLapse === 'take_over';
  return repeatable && record.keepUntil <= write.actor.latestRetention;
}

function isPromiseOver(file: CaseFile, before: Kept, now: Circumstances): boolean {
  const fact = file.settled.findLast(({ owner }) => owner === before.record.owner);
  return fact === undefined || fact.promisedUntil <= now.now + now.skewMs;
}

function hasAudit(file: CaseFile, write: Write, action: string): boolean {
  const from = write.before?.appliedAt ?? 0;
  return file.audits.some(
    ({ line, actor, at }) => line.action === action && actor === write.actor && at >= from,
  );
}

export function attemptOf(file: CaseFile, kept: Kept): AttemptFact | undefined {
  const { record, revision } = kept;
  return file.attempts.get(record.fence === 0 ? revision : record.fence);
}
