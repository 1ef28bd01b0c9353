import { ERRORS } from '../errors.ts';
import type { EngineEvent } from '../events.ts';
import { NearAnswer } from '../near/near-tier.ts';
import { type Execution, REFUSAL_CODES, type Refusal, type RefusalReason } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import type { KeptOutcome, OperationId, Outcome, SettledRecord } from '../record.ts';
import { type DurationMs, SECOND } from '../units.ts';

/** Gives a settled answer again. */
export function replay(
  parts: EngineParts,
  id: OperationId,
  answer: NearAnswer,
  near: boolean,
): Execution {
  answer.replays += 1;
  const { state, settledAt } = answer;
  parts.observe({ type: 'replayed', id, near, state, settledAt });
  return {
    kind: 'replayed',
    state,
    outcome: answer.outcome,
    attempt: answer.attempt,
    settledAt,
    keptUntil: answer.keepUntil,
    replayCount: answer.replays,
    owner: answer.owner,
  };
}

const REFUSAL_EVENTS = {
  mismatch: 'mismatch',
  expired: 'expired',
  in_doubt: 'refused_in_doubt',
  over_quota: 'over_quota',
  deadline: 'deadline',
} as const satisfies Partial<Record<RefusalReason, EngineEvent['type']>>;

export type RefusalDetails = Pick<Refusal, 'retryAfterMs' | 'cause'>;

export function refuse(
  parts: EngineParts,
  id: OperationId,
  reason: RefusalReason,
  details: RefusalDetails = {},
): Refusal {
  if (reason in REFUSAL_EVENTS) {
    parts.observe({ type: REFUSAL_EVENTS[reason as keyof typeof REFUSAL_EVENTS], id });
  }
  return { kind: 'refused', reason, retry: ERRORS[REFUSAL_CODES[reason]].retry, ...details };
}

/** Long enough not to storm, and most operations are done by then. */
export const RETRY_SOON = { retryAfterMs: 1 * SECOND };

export function refuseInProgress(
  parts: EngineParts,
  id: OperationId,
  arrivedAt: DurationMs,
): Refusal {
  const waitedMs = parts.world.elapsed() - arrivedAt;
  parts.observe({ type: 'in_progress', id, waitedMs });
  return refuse(parts, id, 'in_progress', RETRY_SOON);
}

export function emitWaited(parts: EngineParts, id: OperationId, arrivedAt: DurationMs): void {
  const waitedMs = parts.world.elapsed() - arrivedAt;
  if (waitedMs > 0) parts.observe({ type: 'waited', id, waitedMs });
}

/** A settled record made ready to be given, or `null` when its outcome cannot be unpacked. */
export async function answerOf(
  parts: EngineParts,
  record: SettledRecord,
): Promise<NearAnswer | null> {
  const outcome = await unpackOutcome(parts, record.outcome);
  return outcome === null ? null : new NearAnswer(record, outcome);
}

/** Packs an outcome above the threshold, if that makes it smaller. */
export async function packOutcome(
  parts: EngineParts,
  outcome: Outcome,
  aboveBytes: number,
): Promise<KeptOutcome> {
  const { contentType, bytes } = outcome;
  const codec = parts.platform.codecs[0];
  if (codec !== undefined && bytes.length > aboveBytes) {
    const packed = await codec.pack(bytes);
    if (packed.length < bytes.length) {
      return { contentType, codec: codec.tag, size: bytes.length, bytes: packed };
    }
  }
  return plainOutcome(outcome);
}

export function plainOutcome({ contentType, bytes }: Outcome): KeptOutcome {
  return { contentType, codec: 0, size: bytes.length, bytes };
}

export async function unpackOutcome(
  parts: EngineParts,
  kept: KeptOutcome,
): Promise<Outcome | null> {
  const { contentType } = kept;
  if (kept.codec === 0) return { contentType, bytes: alone(kept.bytes) };
  const codec = parts.platform.codecs.find(({ tag }) => tag === kept.codec);
  if (codec === undefined) return null;
  try {
    const bytes = await codec.unpack(kept.bytes, kept.size);
    return bytes.length === kept.size ? { contentType, bytes } : null;
  } catch {
    return null;
  }
}

/** Stores give views of what a connection has read; an answer that stays must not keep all of that. */
function alone(bytes: Uint8Array): Uint8Array {
  return bytes.buffer.byteLength > 2 * bytes.length ? new Uint8Array(bytes) : bytes;
}
