import { OncewardError } from '../errors.ts';
import type { AuditLine } from '../events.ts';
import { checkText, LIMITS } from '../input.ts';
import type { EngineParts } from '../parts.ts';
import { requireDuration } from '../policy.ts';
import { profiles } from '../profiles.ts';
import { extendRecord, fenceOf, openRecord, settleRecord } from '../record/transitions.ts';
import type { OperationId, OperationRecord, Outcome, Revision, SettledRecord } from '../record.ts';
import { packOutcome } from '../run/answer.ts';
import { readRecord, swapRecord } from '../store-access/store-calls.ts';
import { type DurationMs, SECOND } from '../units.ts';

/** Who changes a record from outside, and why. Both end up in the audit trail. */
export interface Actor {
  readonly by: string;
  readonly reason: string;
}

export interface Verdict extends Actor {
  /** `void`: it did not happen; the key may be used again. */
  readonly as: 'committed' | 'rejected' | 'void';
  readonly outcome?: Outcome;
  readonly keepMs: DurationMs;
}

export type ChangeResult =
  | { readonly done: true }
  /** There is nothing, or nothing that this change applies to. */
  | { readonly done: false; readonly why: 'absent' | 'not_in_doubt' | 'not_settled' | 'changed' };

const BOUND = { storeTimeoutMs: 5 * SECOND };
const VERDICTS: readonly string[] = ['committed', 'rejected', 'void'];
const NO_OUTCOME: Outcome = { contentType: '', bytes: new Uint8Array(0) };

/** An operator's answer to a doubt. */
export async function resolveDoubt(
  parts: EngineParts,
  id: OperationId,
  verdict: Verdict,
): Promise<ChangeResult> {
  checkVerdict(verdict);
  const found = await readNow(parts, id);
  if (found === null) return { done: false, why: 'absent' };
  const { record, revision } = found;
  if (record !== null && record.state !== 'in_doubt') return { done: false, why: 'not_in_doubt' };
  const next =
    verdict.as === 'void'
      ? openRecord(record, parts.nextOwner(), parts.clock.settlingNow() + verdict.keepMs)
      : await verdictRecord(parts, record, revision, verdict);
  const line = { action: 'resolve', from: 'in_doubt', to: verdict.as } as const;
  const result = await change(parts, id, revision, next, verdict, line);
  if (result.done) parts.observe({ type: 'doubt_resolved', id, by: verdict.by });
  return result;
}

/** A word that was mistyped must not become a verdict of its own. */
function checkVerdict({ as, keepMs, outcome }: Verdict): void {
  if (!VERDICTS.includes(as)) {
    fail(`as is ${JSON.stringify(as)}; it must be one of ${VERDICTS.join(', ')}`);
  }
  requireDuration('keepMs', keepMs, 1);
  if (outcome === undefined) return;
  const { contentType, bytes } = outcome;
  if (typeof contentType === 'string' && bytes instanceof Uint8Array) return;
  fail('outcome must have a contentType, which is a text, and bytes, which are a Uint8Array');
}

function fail(message: string): never {
  throw new OncewardError('ONCE_INVALID_INPUT', message);
}

/** Forgets a record, whatever its state. The key can then be used again: only for operators. */
export async function purge(
  parts: EngineParts,
  id: OperationId,
  actor: Actor,
): Promise<ChangeResult> {
  const found = await readNow(parts, id);
  if (found === null) return { done: false, why: 'absent' };
  const from = found.record?.state ?? 'unreadable';
  const line = { action: 'purge', from, to: 'absent' } as const;
  return change(parts, id, found.revision, null, actor, line);
}

/** Keeps a settled answer for at least `keepMs` from now on. Never shorter than it was promised. */
export async function extend(
  parts: EngineParts,
  id: OperationId,
  keepMs: DurationMs,
  actor: Actor,
): Promise<ChangeResult> {
  requireDuration('keepMs', keepMs, 1);
  const found = await readNow(parts, id);
  if (found === null) return { done: false, why: 'absent' };
  const { record } = found;
  if (record?.state !== 'committed' && record?.state !== 'rejected') {
    return { done: false, why: 'not_settled' };
  }
  const next = extendRecord(record, parts.clock.settlingNow() + keepMs);
  const line = { action: 'extend', from: record.state, to: record.state } as const;
  return change(parts, id, found.revision, next, actor, line);
}

async function readNow(parts: EngineParts, id: OperationId) {
  await parts.clock.ready();
  return readRecord(parts, BOUND, id);
}

async function change(
  parts: EngineParts,
  id: OperationId,
  expected: Revision,
  next: OperationRecord | null,
  actor: Actor,
  line: Pick<AuditLine, 'action' | 'from' | 'to'>,
): Promise<ChangeResult> {
  checkText('by', actor.by, LIMITS.reason);
  checkText('reason', actor.reason, LIMITS.reason);
  const { by, reason } = actor;
  const { scope, key } = id;
  await parts.audit({ at: parts.world.now(), scope, key, by, reason, ...line });
  const result = await swapRecord(parts, 'settle', BOUND, id, expected, next);
  if (!result.won) return { done: false, why: 'changed' };
  parts.near.forget(id);
  return { done: true };
}

async function verdictRecord(
  parts: EngineParts,
  record: OperationRecord | null,
  revision: Revision,
  verdict: Verdict,
): Promise<SettledRecord> {
  if (record === null) {
    // Without its fingerprint nothing could be compared: an unreadable record can only be voided.
    throw new OncewardError(
      'ONCE_RECORD_UNREADABLE',
      'the record cannot be read, so no answer can be kept for it; resolve it as void, or purge it',
    );
  }
  const state = verdict.as === 'committed' ? 'committed' : 'rejected';
  const kept = await packOutcome(
    parts,
    verdict.outcome ?? NO_OUTCOME,
    profiles.http.packAboveBytes,
  );
  const resolution = { by: verdict.by, reason: verdict.reason };
  const fence = fenceOf(record, revision);
  const now = parts.clock.settlingNow();
  return settleRecord(record, fence, state, kept, verdict.keepMs, now, resolution);
}
