import { REFUSALS, type RefusalKind } from '../refusals/refusals.ts';
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
    }
  /** No answer came. Says nothing about the request, so it uses up no attempt of a queued operation. */
  | { readonly kind: 'unreachable'; readonly reason: string; readonly ran: 'no' | 'unknown' }
  | { readonly kind: 'unauthorized' }
  /** A definite no, and it will stay one under this key. */
  | { readonly kind: 'refused'; readonly reason: string; readonly atTheDoor?: boolean }
  /** The server itself does not know whether it happened. A person has to look. */
  | { readonly kind: 'in_doubt'; readonly reason: string }
  /** The caller has given up waiting. */
  | { readonly kind: 'aborted' };

/** An answer, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Statuses that say "not now": the request was turned away before it began. */
const TURNED_AWAY = [408, 425, 429];

/** Server errors that another try cannot mend. */
const NEVER_MENDED = [501, 505, 506, 510];

/**
 * Refusals that may come from someone before the server, or from a server that is still running the key and
 * does not say so. They tell nothing about an earlier attempt.
 */
const AT_THE_DOOR = [403, 404, 409, 421];

/** Refusals of a server that has looked up the key. */
const KEY_WAS_SEEN = /^(payload-mismatch|IDEMPOTENCY_KEY_REUSED)$/;

export function judgeAnswer(answer: Answer, now: number): Verdict {
  const { status, headers } = answer;
  if (status >= 200 && status < 300) return { kind: 'done' };
  const retryAfterMs = parseRetryAfter(headers.get('retry-after'), now);
  const said = readProblem(answer);
  const reason = `HTTP ${status}${said.text && `: ${said.text}`}`;
  const transient = { kind: 'transient', reason, retryAfterMs } as const;

  switch (said.code) {
    case 'in-progress':
    case 'CONCURRENT_REQUEST':
      return { kind: 'in_progress', retryAfterMs };
    case 'BATCH_ROLLED_BACK':
      return { ...transient, ran: 'no' };
    case 'outcome-unknown':
    case 'OUTCOME_UNKNOWN':
      // With Retry-After the server expects to know soon; otherwise a person has to look.
      if (retryAfterMs !== null) return { ...transient, ran: 'unknown' };
      return { kind: 'in_doubt', reason };
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
  if ((status >= 500 && !NEVER_MENDED.includes(status)) || said.retry === 'same_key') {
    return { ...transient, ran: 'unknown' };
  }
  return { kind: 'refused', reason, atTheDoor: AT_THE_DOOR.includes(status) };
}

/** What a verdict means when an attempt before it may have had an effect. */
export function afterDoubt(verdict: Verdict): Verdict {
  return verdict.kind === 'refused' && verdict.atTheDoor
    ? { ...verdict, kind: 'transient', ran: 'unknown', retryAfterMs: null }
    : verdict;
}

/** Failures to connect, by the codes that Node gives them. Nothing was sent yet. */
const NOT_CONNECTED = /REFUSED|NOTFOUND|AGAIN|UNREACH|CONNECT_T/;
const TLS_FAILED = /CERT|TLS|SSL|SIGN/;

/**
 * What a rejected `fetch` means. Browsers tell nothing apart but an abort: lost network, failed name look-up
 * and failed TLS are all one `TypeError`, after which the request may have arrived. Node says more.
 */
export function judgeFailure(error: unknown, callerSignal?: AbortSignal | null): Verdict {
  if (callerSignal?.aborted) return { kind: 'aborted' };
  const name = error instanceof Error ? error.name : '';
  if (name === 'TimeoutError' || name === 'AbortError') {
    return { kind: 'unreachable', reason: 'no answer in time', ran: 'unknown' };
  }
  const code = errorCode(error);
  const isTls = TLS_FAILED.test(code);
  const ran = isTls || NOT_CONNECTED.test(code) ? 'no' : 'unknown';
  return { kind: 'unreachable', reason: (isTls ? 'TLS: ' : '') + code || 'network failure', ran };
}

function errorCode(error: unknown): string {
  const { code, cause } = Object(error) as { code?: unknown; cause?: unknown };
  return asText((Object(cause) as { code?: unknown }).code) || asText(code);
}

interface Problem {
  /** The last part of a problem type, or the code of an `{"error":{"code"}}` envelope. */
  readonly code: string;
  readonly retry: unknown;
  readonly happened: unknown;
  /** What a person would want to read. */
  readonly text: string;
}

/** What it means where the server that refuses does not add it. */
const WORDS: ReadonlyMap<string, RefusalKind> = new Map(
  Object.entries(REFUSALS).flatMap(([name, kind]) => [
    [name, kind],
    [kind.code, kind],
  ]),
);

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
  const word = asText(code) || asText(type).replace(/^.*[/#:]/, '');
  const { retry, happened } = {
    ...WORDS.get(word),
    ...said,
    ...saidInside,
  } as Partial<RefusalKind>;
  return {
    code: word,
    retry,
    happened,
    text: envelope || asText(detail) || asText(title),
  };
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, LONGEST_TEXT) : '';
}
