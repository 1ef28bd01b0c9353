import type { RefusalKind } from '../refusals/refusals.ts';
import type { FailureCode } from './outbox/operation.ts';
import { parseRetryAfter } from './retry-policy.ts';

/**
 * What an attempt means for its operation.
 *
 * `ran` says whether *this* attempt can have had an effect: an operation whose every attempt ended in `no` may
 * be changed freely, any other has to be settled under its key first.
 */
export type Verdict =
  | { readonly kind: 'done' }
  /** The same key is still running elsewhere: leave it alone for a while, then ask again. */
  | { readonly kind: 'in_progress'; readonly retryAfterMs: number | null }
  | {
      readonly kind: 'transient';
      readonly reason: string;
      readonly ran: 'no' | 'unknown';
      readonly retryAfterMs: number | null;
      /** See `AT_THE_DOOR`: a group gives up on it too. */
      readonly atTheDoor?: boolean;
      /** The server has too much to do, or says when to come back: patience, not a failure. */
      readonly isBusy?: boolean;
    }
  /** No answer came. Says nothing about the request, so it uses up no attempt of a queued operation. */
  | { readonly kind: 'unreachable'; readonly reason: string; readonly ran: 'no' | 'unknown' }
  | { readonly kind: 'unauthorized' }
  /** Someone else has signed in before it was sent. */
  | { readonly kind: 'not_sent' }
  /** A definite no, and it will stay one under this key. */
  | {
      readonly kind: 'refused';
      readonly reason: string;
      readonly atTheDoor?: boolean;
      readonly code?: FailureCode;
    }
  /** The server itself does not know whether it happened. A person has to resolve it. */
  | { readonly kind: 'in_doubt'; readonly reason: string }
  /** The caller has given up waiting. */
  | { readonly kind: 'aborted' };

/** An answer, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Statuses that say "not now": the request was refused before it began. */
const TURNED_AWAY = [408, 425, 429];

/**
 * Refusals that may come from someone before the server, or from a server that is still running the key and
 * does not say so. They say nothing about an earlier attempt.
 */
const AT_THE_DOOR = [403, 404, 409, 421];

/** Refusals of a server that has looked up the key. */
const KEY_WAS_SEEN = /^(payload-mismatch|idempotency-key-reused)$/;

export function judgeAnswer(answer: Answer, now: number): Verdict {
  const { status, headers } = answer;
  if (status >= 200 && status < 300) return { kind: 'done' };
  const retryAfterMs = parseRetryAfter(headers.get('retry-after'), now);
  const said = readProblem(answer);
  const reason = `HTTP ${status}${said.text && `: ${said.text}`}`;
  const isBusy = status === 429 || status === 503 || retryAfterMs !== null;
  const transient = { kind: 'transient', reason, retryAfterMs, isBusy } as const;

  switch (said.code) {
    case 'in-progress':
    case 'concurrent-request':
      return { kind: 'in_progress', retryAfterMs };
    case 'outcome-unknown':
      // With Retry-After the server expects to know soon; otherwise a person has to resolve it.
      if (retryAfterMs !== null) return { ...transient, ran: 'unknown' };
      return { kind: 'in_doubt', reason };
    case 'key-expired':
    case 'first-sent-invalid':
      return { kind: 'in_doubt', reason };
    case 'response-not-retained':
      return { kind: 'done' };
  }
  const { retry, happened } = said;
  if (happened === 'yes') return { kind: 'done' };
  // A kept failure: asking again under this key can only bring it back.
  if (headers.get('idempotency-replayed') === 'true') {
    return { kind: happened === 'unknown' ? 'in_doubt' : 'refused', reason };
  }
  if (status === 401) return { kind: 'unauthorized' };
  if (happened === 'no') {
    if (retry === 'same_key') return { ...transient, ran: 'no' };
    // Most are given before the key is looked up, and so say nothing of an earlier attempt.
    return { kind: 'refused', reason, atTheDoor: !KEY_WAS_SEEN.test(said.code) };
  }
  if (happened === 'unknown') {
    return retry === 'never' ? { kind: 'in_doubt', reason } : { ...transient, ran: 'unknown' };
  }
  // The server does not say what became of it. Where it has failed, it may have acted before.
  if (retry === 'never' && status >= 500) return { kind: 'in_doubt', reason };
  if (retry === 'never' || retry === 'new_key') return { kind: 'refused', reason };
  if (status === 409 && retryAfterMs !== null) return { kind: 'in_progress', retryAfterMs };
  if (TURNED_AWAY.includes(status)) return { ...transient, ran: 'no' };
  if (status >= 500 || retry === 'same_key') return { ...transient, ran: 'unknown' };
  return { kind: 'refused', reason, atTheDoor: AT_THE_DOOR.includes(status) };
}

/** What a verdict means when an attempt before it may have had an effect. */
export function afterDoubt(verdict: Verdict): Verdict {
  return verdict.kind === 'refused' && verdict.atTheDoor
    ? { ...verdict, kind: 'transient', ran: 'unknown', retryAfterMs: null }
    : verdict;
}

/** Failures to connect, TLS included, by the codes that Node gives them. Nothing was sent yet. */
const NOT_CONNECTED = /REFUSED|NOTFOUND|AGAIN|UNREACH|CONNECT_T|CERT|TLS|SSL|SIGN/;

/**
 * What a rejected `fetch` means. Browsers distinguish only an abort: lost network, failed DNS lookup
 * and failed TLS are all one `TypeError`, after which the request may have arrived. Node says more.
 */
export function judgeFailure(error: unknown, callerSignal?: AbortSignal | null): Verdict {
  if (callerSignal?.aborted) return { kind: 'aborted' };
  if (/^(Timeout|Abort)Error$/.test((Object(error) as Error).name)) {
    return { kind: 'unreachable', reason: 'no answer in time', ran: 'unknown' };
  }
  const code = errorCode(error);
  const ran = NOT_CONNECTED.test(code) ? 'no' : 'unknown';
  return { kind: 'unreachable', reason: code || 'network failure', ran };
}

function errorCode(error: unknown): string {
  const { code, cause } = Object(error) as { code?: unknown; cause?: unknown };
  return asText((Object(cause) as { code?: unknown }).code) || asText(code);
}

interface Problem {
  /** The last part of a problem type, or the code of an `{"error":{"code"}}` envelope in the same spelling. */
  readonly code: string;
  readonly retry: unknown;
  readonly happened: unknown;
  /** What a person would want to read. */
  readonly text: string;
}

const LONGEST_TEXT = 300;

function readProblem({ headers, text }: Answer): Problem {
  let body: unknown;
  try {
    body = /\bjson\b/.test(headers.get('content-type') ?? '') && JSON.parse(text);
  } catch {
    // Not what it says it is; the status has to do.
  }
  const { type, title, detail, error, ...said } = Object(body) as Record<string, unknown>;
  const { code, message, ...saidInside } = Object(error) as Record<string, unknown>;
  const envelope = `${asText(code)} ${asText(message)}`.trim();
  const word = asText(code).toLowerCase().replaceAll('_', '-');
  const { retry, happened } = { ...said, ...saidInside } as Partial<RefusalKind>;
  return {
    code: word || asText(type).replace(/^.*[/#:]/, ''),
    retry,
    happened,
    text: envelope || asText(detail) || asText(title),
  };
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, LONGEST_TEXT) : '';
}
