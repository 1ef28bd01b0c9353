import type { Execution } from '../engine/operation.ts';
import type { ProfileName } from '../engine/profiles.ts';
import { NOT_RETAINED } from '../engine/record.ts';
import { ERROR_TYPE } from '../engine/run/settlement.ts';
import type { Captured, HttpAnswer } from './answer.ts';
import type { HttpEventName } from './events.ts';
import { httpDate } from './http-date.ts';
import { decodeAnswer } from './kept-answer.ts';
import { problemAnswer, REFUSAL_PROBLEMS } from './problem.ts';

interface Asked {
  readonly key: string;
  /** The key as the client wrote it. */
  readonly sent: string;
}

type Replayed = Extract<Execution, { kind: 'replayed' }>;

/** What is sent in place of the handler's answer; `null` when the handler ran and its own may go out. */
export function answerExecution(
  profile: ProfileName,
  asked: Asked,
  execution: Execution,
): HttpAnswer | null {
  switch (execution.kind) {
    case 'executed':
      return null;
    case 'replayed':
      return replayAnswer(profile, asked, execution);
    case 'refused': {
      const [name, detail] = REFUSAL_PROBLEMS[execution.reason];
      const { retryAfterMs } = execution;
      const { key } = asked;
      return problemAnswer(name, profile, {
        detail,
        key,
        ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      });
    }
  }
}

function replayAnswer(profile: ProfileName, asked: Asked, replayed: Replayed): HttpAnswer {
  const { outcome } = replayed;
  const { key } = asked;
  const kept = decodeAnswer(outcome);
  if (kept?.retained) {
    const headers = mark(profile, kept.headers, asked, replayed);
    return { status: kept.status, headers, body: kept.body };
  }
  if (outcome.contentType === ERROR_TYPE) {
    const detail =
      'the operation failed, and this failure is its kept answer; check whether it happened before it is sent under a new key';
    const answer = problemAnswer('operation-failed', profile, { detail, key });
    return { ...answer, headers: mark(profile, answer.headers.slice(0, 2), asked, replayed) };
  }
  if (kept === null && outcome.contentType !== NOT_RETAINED) {
    return resolvedAnswer(profile, key, replayed);
  }
  const why = kept?.why === 'stream' ? 'a stream' : 'too large to keep';
  const detail = `the request was executed once, but its response was ${why}`;
  return problemAnswer('response-not-retained', profile, {
    detail,
    key,
    ...(kept === null ? {} : { originalStatus: kept.status }),
  });
}

/** Resolved by an operator or a probe; its HTTP answer is not known. */
function resolvedAnswer(profile: ProfileName, key: string, { state }: Replayed): HttpAnswer {
  if (state === 'rejected') {
    const detail = 'it was resolved: it did not happen; a new key may be used';
    return problemAnswer('operation-rejected', profile, { detail, key });
  }
  const detail = 'it was resolved: it did happen; what it answered is not known';
  return problemAnswer('response-not-retained', profile, { detail, key });
}

/** A replay is marked as one, and no cache may store it. */
function mark(
  profile: ProfileName,
  headers: readonly string[],
  asked: Asked,
  replayed: Replayed,
): string[] {
  const marked = headers.concat(
    'cache-control',
    'no-store',
    'idempotency-replayed',
    'true',
    'idempotency-replay-count',
    String(replayed.replayCount),
    'idempotency-kept-until',
    httpDate(replayed.keptUntil),
    'x-idempotency-key',
    asked.sent,
  );
  // The name that clients of Stripe read, beside our own.
  if (profile === 'stripe') marked.push('idempotent-replayed', 'true');
  return marked;
}

const REFUSAL_EVENTS = {
  mismatch: 'idempotency_key_mismatch',
  expired: 'idempotency_key_expired',
  in_progress: 'idempotency_concurrent_request',
  fence_lost: 'idempotency_concurrent_request',
  in_doubt: 'idempotency_in_doubt',
  outcome_unknown: 'idempotency_in_doubt',
  rolled_back: 'idempotency_released',
  over_quota: 'idempotency_over_quota',
  deadline: 'idempotency_caller_left',
  store_unavailable: 'idempotency_store_unavailable',
} as const satisfies Record<string, HttpEventName>;

/** The events to emit for an execution. */
export function executionEvents(execution: Execution, captured: Captured | null): HttpEventName[] {
  switch (execution.kind) {
    case 'refused':
      return [REFUSAL_EVENTS[execution.reason]];
    case 'replayed': {
      const kept = decodeAnswer(execution.outcome);
      const isWhole = kept?.retained === true || execution.outcome.contentType === ERROR_TYPE;
      return [isWhole ? 'idempotency_cache_hit' : 'idempotency_response_not_retained'];
    }
    case 'executed': {
      const names: HttpEventName[] = ['idempotency_executed'];
      if (execution.settlement.as === 'released') names.push('idempotency_released');
      if (execution.settlement.as === 'in_doubt') names.push('idempotency_in_doubt');
      if (!execution.recorded) names.push('idempotency_unrecorded');
      if (captured?.kind === 'passed') {
        const large = captured.why === 'too_large';
        names.push(large ? 'idempotency_body_too_large' : 'idempotency_streaming_skipped');
      }
      return names;
    }
  }
}
