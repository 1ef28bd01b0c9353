import { type ClientWorld, SECOND, withDeadline } from '../client-world.ts';
import { FIRST_SENT_HEADER, KEY_HEADER, readReplay } from '../idempotent-fetch.ts';
import { type Answer, judgeAnswer, judgeFailure, type Verdict } from '../verdict.ts';
import type { Groups } from './groups.ts';
import {
  currentRequest,
  ownerOf,
  type StoredAnswer,
  type StoredRequest,
  type WaitingOperation,
} from './operation.ts';
import { type Base, bodyBytes, checkSendable } from './request-intake.ts';
import type { Patience } from './transition.ts';

/** Credentials are fetched at each send, never stored. Both have ten seconds to answer. */
export interface OutboxAuth {
  headers(): Record<string, string> | Promise<Record<string, string>>;
  /** Called after a 401, once for all that got it. `true`: `headers()` has something new to offer. */
  refresh?(): Promise<boolean>;
}

export interface SenderOptions extends Base {
  readonly fetch: typeof fetch;
  readonly auth?: OutboxAuth;
  /** Who is signed in now. */
  readonly owner: () => string | null;
  /** Whether an answer at the end of a redirect says that it was done. None by default. */
  readonly isDone?: (answer: RedirectedAnswer) => boolean;
  readonly groups?: Groups;
  readonly firstSent?: boolean;
  readonly policy: Patience;
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

/** Longer answers are not kept; the application can fetch what it needs. */
export const LONGEST_KEPT_ANSWER = 64 * 1_024;

const AUTH_LIMIT = 10 * SECOND;

/** Sends operations, each with the credentials of its owner. */
export class Sender {
  readonly #options: SenderOptions;
  #refreshing: Promise<boolean> | null = null;
  #refreshed = 0;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** The request of the current step, or what it means that it can never be sent. */
  prepare(operation: WaitingOperation): StoredRequest | Sent {
    const { request } = currentRequest(operation);
    try {
      const filled =
        (operation.group && this.#options.groups?.fillIn(request, operation.steps)) || request;
      checkSendable(filled, this.#options);
      return filled;
    } catch (error) {
      const { message: reason } = error as Error;
      return said({ kind: 'refused', reason, code: 'UNSENDABLE', atTheDoor: true });
    }
  }

  /**
   * Sends the current step of an operation once (twice after a 401 with refreshed credentials) and says what it means.
   * `firstSent`: when an earlier attempt was sent of which nothing is known.
   */
  async send(
    operation: WaitingOperation,
    request: StoredRequest,
    firstSent: number | null,
    signal: AbortSignal,
  ): Promise<Sent> {
    const attempt = () => this.#attempt(operation, request, firstSent, signal);
    const refreshed = this.#refreshed;
    const first = await attempt();
    if (first.verdict.kind !== 'unauthorized') return first;
    // Another may have refreshed while this one was in flight.
    return this.#refreshed > refreshed || (await this.#refresh(signal)) ? attempt() : first;
  }

  /** One at a time, however many got a 401. */
  #refresh(signal: AbortSignal): Promise<boolean> {
    const { auth, world } = this.#options;
    this.#refreshing ??= withDeadline(world, AUTH_LIMIT, signal, async () => auth?.refresh?.())
      .catch(() => false)
      .then((fresh) => {
        this.#refreshing = null;
        if (fresh) this.#refreshed += 1;
        return !!fresh;
      });
    return this.#refreshing;
  }

  async #attempt(
    operation: WaitingOperation,
    request: StoredRequest,
    firstSent: number | null,
    signal: AbortSignal,
  ): Promise<Sent> {
    const { fetch, auth, owner, isDone, policy, world } = this.#options;
    const { key } = currentRequest(operation);
    let headers: Headers;
    try {
      const credentials = await withDeadline(world, AUTH_LIMIT, signal, async () =>
        auth?.headers(),
      );
      headers = new Headers({ ...request.headers, ...credentials, [KEY_HEADER]: key });
    } catch {
      return said({ kind: 'unreachable', reason: 'no credentials', ran: 'no' });
    }
    if (firstSent !== null && this.#options.firstSent !== false) {
      headers.set(FIRST_SENT_HEADER, new Date(firstSent).toUTCString());
    }
    // The credentials may be those of someone who has signed in meanwhile.
    if (owner() !== ownerOf(operation)) return said({ kind: 'not_sent' });
    try {
      return await withDeadline(world, policy.timeoutMs, signal, async (either) => {
        const response = await fetch(request.url, {
          method: request.method,
          headers,
          body: bodyBytes(request),
          signal: either,
        });
        const { status, redirected, url } = response;
        // The answer is read to its end before it counts: one that breaks off may be any answer.
        const text = await response.text();
        const answer: Answer = { status, headers: response.headers, text };
        if (redirected && isDone?.({ ...answer, url }) !== true) return wentElsewhere(url);
        return said(judgeAnswer(answer, world.now()), keepable(answer));
      });
    } catch (error) {
      return said(judgeFailure(error, signal));
    }
  }
}

function said(verdict: Verdict, answer: StoredAnswer | null = null): Sent {
  return { verdict, answer };
}

/**
 * `fetch` follows most redirects with a GET: whatever answered there has not seen the operation. The server that
 * redirected may have acted before.
 */
function wentElsewhere(url: string): Sent {
  const reason = `redirected to ${url.replace(/[?#].*/, '')}`;
  return said({ kind: 'transient', reason, ran: 'unknown', retryAfterMs: null });
}

function keepable({ status, headers, text }: Answer): StoredAnswer {
  const contentType = headers.get('content-type');
  const readable = /^text\/|\bjson\b|\bxml\b/.test(contentType ?? 'text/');
  const body = readable && text !== '' && text.length <= LONGEST_KEPT_ANSWER ? text : null;
  return { status, ...readReplay(headers), contentType, body };
}
