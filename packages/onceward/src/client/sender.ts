import { type ClientWorld, withDeadline } from './client-world.ts';
import { fillIn } from './fill-in.ts';
import { KEY_HEADER, readReplay } from './idempotent-fetch.ts';
import { currentRequest, type StoredAnswer, type WaitingOperation } from './operation.ts';
import { bodyBytes } from './request-intake.ts';
import type { RetryPolicy } from './retry-policy.ts';
import { type Answer, judgeAnswer, judgeFailure, type Verdict } from './verdict.ts';

/** Credentials are asked for at each send, never stored. */
export interface OutboxAuth {
  headers(): Record<string, string> | Promise<Record<string, string>>;
  /** Called once after a 401. `true`: `headers()` has something new to offer. */
  refresh?(): Promise<boolean>;
}

export interface SenderOptions {
  readonly fetch: typeof fetch;
  readonly auth: OutboxAuth | undefined;
  /** Whether an answer at the end of a redirect says that it was done. None does unless told. */
  readonly isDone: ((answer: RedirectedAnswer) => boolean) | undefined;
  readonly policy: RetryPolicy;
  readonly world: ClientWorld;
}

/** An answer that came from elsewhere than the request was sent to: as a rule the page that asks for a sign-in. */
export interface RedirectedAnswer {
  readonly status: number;
  readonly url: string;
  readonly headers: Headers;
  readonly text: string;
}

export interface Sent {
  readonly verdict: Verdict;
  readonly answer: StoredAnswer | null;
}

/** Longer answers are not kept with a success; the application can fetch what it needs. */
export const LONGEST_KEPT_ANSWER = 64 * 1_024;

/** Sends the current step of an operation once (twice after a 401 that could be mended) and says what it means. */
export async function sendOnce(
  operation: WaitingOperation,
  signal: AbortSignal,
  options: SenderOptions,
): Promise<Sent> {
  const first = await attempt(operation, signal, options);
  if (first.verdict.kind !== 'unauthorized' || options.auth?.refresh === undefined) return first;
  const refreshed = await options.auth.refresh().catch(() => false);
  return refreshed ? attempt(operation, signal, options) : first;
}

async function attempt(
  operation: WaitingOperation,
  signal: AbortSignal,
  { fetch, auth, isDone, policy, world }: SenderOptions,
): Promise<Sent> {
  const { key, request: stored } = currentRequest(operation);
  const request = operation.group ? fillIn(stored, operation.steps) : stored;
  if (typeof request === 'string') {
    const reason = `no earlier answer has ${request}`;
    return { verdict: { kind: 'refused', reason }, answer: null };
  }
  let credentials: Record<string, string> | undefined;
  try {
    credentials = await auth?.headers();
  } catch {
    return {
      verdict: { kind: 'unreachable', reason: 'no credentials', ran: 'no' },
      answer: null,
    };
  }
  try {
    return await withDeadline(world, policy.timeoutMs, signal, async (either) => {
      const response = await fetch(request.url, {
        method: request.method,
        headers: { ...request.headers, ...credentials, [KEY_HEADER]: key },
        body: bodyBytes(request),
        signal: either,
      });
      const { status, headers } = response;
      // The answer is read to its end before it counts: one that breaks off may be any answer.
      const answer: Answer = { status, headers, text: await response.text() };
      const { redirected, url } = response;
      if (redirected && isDone?.({ ...answer, url }) !== true) return wentElsewhere(url);
      return { verdict: judgeAnswer(answer, world.now()), answer: keepable(answer) };
    });
  } catch (error) {
    return { verdict: judgeFailure(error, signal), answer: null };
  }
}

/**
 * `fetch` follows most redirects with a GET: whatever answered there has not seen the operation. Whoever sent us there
 * may have acted before.
 */
function wentElsewhere(url: string): Sent {
  const reason = `redirected to ${url.replace(/[?#].*/, '')}`;
  return {
    verdict: { kind: 'transient', reason, ran: 'unknown', retryAfterMs: null },
    answer: null,
  };
}

function keepable({ status, headers, text }: Answer): StoredAnswer {
  const contentType = headers.get('content-type');
  const readable = /^text\/|\bjson\b|\bxml\b/.test(contentType ?? 'text/');
  const body = readable && text !== '' && text.length <= LONGEST_KEPT_ANSWER ? text : null;
  return { status, ...readReplay(headers), contentType, body };
}
