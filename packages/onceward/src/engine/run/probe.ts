import type { Operation, Probe, ProbeAnswer } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import type { Current, Decision } from '../record/decide.ts';
import { keepLapsedMsOf, keepMsOf, openRecord, settleRecord } from '../record/transitions.ts';
import type { InDoubtRecord, SettledRecord } from '../record.ts';
import { swapRecord } from '../store-access/store-calls.ts';
import { answerOf, packOutcome } from './answer.ts';

type InDoubt = Extract<Decision, { reason: 'in_doubt' }>;

/** Asks the caller's probe about a doubtful attempt and records what it found. */
export async function askProbe(
  parts: EngineParts,
  operation: Operation,
  probe: Probe,
  doubt: InDoubt,
): Promise<Current | null> {
  const unchanged: Current = { revision: doubt.revision, record: doubt.record, orphaned: false };
  if (doubt.record === null) return unchanged;
  const found = await ask(parts, operation, probe, doubt.record);
  if (found.found === 'unknown') return unchanged;
  const record =
    found.found === 'nothing'
      ? opened(parts, operation, doubt)
      : await toSettled(parts, operation, doubt, found);
  await parts.audit({
    at: parts.world.now(),
    action: 'resolve',
    scope: operation.id.scope,
    key: operation.id.key,
    by: 'probe',
    reason: `the probe found ${found.found}`,
    from: 'in_doubt',
    to: record === null || record.state === 'pending' ? 'void' : record.state,
  });
  const { id, policy } = operation;
  const result = await swapRecord(parts, 'settle', policy, id, doubt.revision, record);
  if (!result.won) return result.current;
  parts.observe({ type: 'doubt_resolved', id, by: 'probe' });
  if (record === null) return null;
  const answer = record.state === 'pending' ? null : await answerOf(parts, record);
  if (answer !== null) parts.near.remember(id, answer);
  return { revision: result.revision, record, orphaned: false };
}

async function ask(
  parts: EngineParts,
  operation: Operation,
  probe: Probe,
  record: InDoubtRecord,
): Promise<ProbeAnswer> {
  const question = {
    id: operation.id,
    attempt: record.attempt,
    fence: record.fence,
    downstreamKey: parts.downstreamKey(operation.id),
  };
  const { signal } = operation;
  // The caller may leave before the probe has an answer.
  return new Promise((resolve) => {
    const leave = () => resolve(UNKNOWN);
    if (signal?.aborted) return leave();
    signal?.addEventListener('abort', leave, { once: true });
    void new Promise<ProbeAnswer>((answer) => answer(probe(question)))
      .catch(() => UNKNOWN)
      .then(resolve)
      .finally(() => signal?.removeEventListener('abort', leave));
  });
}

const UNKNOWN: ProbeAnswer = { found: 'unknown' };

function opened(parts: EngineParts, { policy }: Operation, { record }: InDoubt) {
  const keepUntil = parts.clock.settlingNow() + keepLapsedMsOf(policy);
  return openRecord(record, parts.nextOwner(), keepUntil);
}

async function toSettled(
  parts: EngineParts,
  operation: Operation,
  doubt: InDoubt,
  found: Extract<ProbeAnswer, { outcome: unknown }>,
): Promise<SettledRecord> {
  const { policy } = operation;
  const record = doubt.record!;
  const kept = await packOutcome(parts, found.outcome, policy.packAboveBytes);
  const keepMs = keepMsOf(policy, found.found);
  const resolution = { by: 'probe', reason: `the probe found ${found.found}` };
  const now = parts.clock.settlingNow();
  return settleRecord(record, record.fence, found.found, kept, keepMs, now, resolution);
}
