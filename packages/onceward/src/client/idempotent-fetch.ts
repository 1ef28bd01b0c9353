import { type BreakerPolicy, breakersBy } from './circuit-breaker.ts';
import { ClientError } from './client-error.ts';
import { type ClientWorld, mintKey, pause, realWorld, withDeadline } from './client-world.ts';
import { checkOptions } from './outbox/request-intake.ts';
import { backoffMs, RETRY_DEFAULTS, type RetryPolicy } from './retry-policy.ts';
import { type Answer, afterDoubt, judgeAnswer, judgeFailure, type Verdict } from './verdict.ts';

export const KEY_HEADER = 'Idempotency-Key';
/** When an earlier attempt was sent of which nothing is known: a server that has forgotten the key must not run it. */
export const FIRST_SENT_HEADER = 'Idempotency-First-Sent';
const OTHER_KEY_HEADER = 'X-Idempotency-Key';

export interface IdempotentFetchOptions {
  readonly fetch?: typeof fetch;
  readonly world?: ClientWorld;
  readonly retry?: Partial<RetryPolicy>;
  readonly breaker?: BreakerPolicy;
  /** Methods that get a key and are retried; any other call goes straight through. */
  readonly methods?: readonly string[];
  /**
   * Called once per operation after a 401. Answers the headers of the next attempt, such as a fresh
   * `Authorization`, or `null` if there is nothing to be done.
   */
  readonly refreshAuth?: () => Promise<Record<string, string> | null>;
  /** `false`: repeats do not carry `Idempotency-First-Sent`. For a server of another origin that does not allow it. */
  readonly firstSent?: boolean;
}

const KNOWN = 'fetch,world,retry,breaker,methods,refreshAuth,firstSent';

export interface IdempotentInit extends RequestInit {
  /** The key of this operation. Left out, one is minted; given again, the operation is the same one. */
  readonly idempotencyKey?: string;
}

export type IdempotentFetch = (
  input: string | URL | Request,
  init?: IdempotentInit,
) => Promise<Response>;

/** What is known of an answer beyond the answer itself. */
export interface ReplayInfo {
  readonly key: string | null;
  readonly replayed: boolean;
  /** 0 for an answer that is no replay. */
  readonly replayCount: number;
  readonly attempts: number;
}

const known = new WeakMap<Response, { key: string; attempts: number }>();

export function replayInfo(response: Response): ReplayInfo {
  const { key, attempts } = known.get(response) ?? { key: null, attempts: 1 };
  return { key, attempts, ...readReplay(response.headers) };
}

export function readReplay(headers: Headers): { replayed: boolean; replayCount: number } {
  const replayed = headers.get('idempotency-replayed') === 'true';
  const count = Number(headers.get('idempotency-replay-count'));
  return { replayed, replayCount: replayed ? count || 1 : 0 };
}

/**
 * A `fetch` that may be retried: one key per operation, sent with every attempt of it.
 *
 * ```ts
 * const send = idempotentFetch();
 * const response = await send('/v1/orders', { method: 'POST', body: JSON.stringify(order) });
 * const { replayed } = replayInfo(response);
 * ```
 *
 * When attempts run out, the last answer is returned, or the last failure thrown, as `fetch` would. The key
 * lives as long as the call: what must survive a restart belongs in the outbox.
 */
export function idempotentFetch(options: IdempotentFetchOptions = {}): IdempotentFetch {
  checkOptions(options, KNOWN);
  const world = options.world ?? realWorld;
  const policy = { ...RETRY_DEFAULTS, ...options.retry };
  const breakerFor = breakersBy(world, options.breaker);
  const methods = new Set(options.methods ?? ['POST', 'PUT', 'PATCH']);
  const send = options.fetch ?? ((input, init) => fetch(input, init));

  return async (input, init = {}) => {
    const { idempotencyKey, ...plain } = init;
    const request = new Request(input, plain);
    if (!methods.has(request.method)) return send(request);

    const { headers } = request;
    const given = idempotencyKey ?? headers.get(KEY_HEADER) ?? headers.get(OTHER_KEY_HEADER);
    const key = given ?? mintKey(world);
    headers.delete(OTHER_KEY_HEADER);
    headers.set(KEY_HEADER, key);
    const breaker = breakerFor(request.url);
    let refreshed = false;
    let inDoubt = false;
    const began = new Date(world.now()).toUTCString();

    for (let attempt = 1; ; attempt += 1) {
      const awayMs = breaker.admit();
      if (awayMs > 0) throw circuitOpen(request.url, awayMs);
      const { response, error, verdict: first } = await tryOnce(send, request, policy, world);
      const verdict: Verdict = inDoubt ? afterDoubt(first) : first;
      inDoubt ||= 'ran' in verdict && verdict.ran === 'unknown';
      if (inDoubt && options.firstSent !== false) headers.set(FIRST_SENT_HEADER, began);
      if (response !== null) known.set(response, { key, attempts: attempt });
      breaker.report(verdict);

      if (verdict.kind === 'unauthorized' && !refreshed) {
        refreshed = true;
        const fresh = await options.refreshAuth?.();
        if (fresh) {
          for (const [name, value] of Object.entries(fresh)) headers.set(name, value);
          continue;
        }
      }
      const waitMs =
        attempt < policy.maxAttempts ? nextPause(verdict, attempt, policy, world) : null;
      if (waitMs === null) {
        if (response === null) throw error;
        return response;
      }
      await response?.body?.cancel();
      await pause(world, waitMs, request.signal);
      if (request.signal.aborted) throw request.signal.reason;
    }
  };
}

interface Tried {
  readonly response: Response | null;
  readonly error: unknown;
  readonly verdict: Verdict;
}

async function tryOnce(
  send: typeof fetch,
  request: Request,
  policy: RetryPolicy,
  world: ClientWorld,
): Promise<Tried> {
  try {
    return await withDeadline(world, policy.timeoutMs, request.signal, async (signal) => {
      const response = await send(new Request(request.clone(), { signal }));
      const verdict = judgeAnswer(await readForVerdict(response), world.now());
      return { response, error: null, verdict };
    });
  } catch (error) {
    return { response: null, error, verdict: judgeFailure(error, request.signal) };
  }
}

/** Only a refusal has to be read to be understood; a success may be a stream, and belongs to the caller. */
async function readForVerdict(response: Response): Promise<Answer> {
  const { status, headers } = response;
  const text = response.ok ? '' : await response.clone().text();
  return { status, headers, text };
}

/** How long until the next try; `null` if there is to be none. */
function nextPause(
  verdict: Verdict,
  failures: number,
  policy: RetryPolicy,
  world: ClientWorld,
): number | null {
  const ownMs = backoffMs(policy, failures, world);
  if (verdict.kind === 'unreachable') return ownMs;
  if (!('retryAfterMs' in verdict)) return null;
  const leastMs = verdict.kind === 'in_progress' ? policy.inProgressMs : ownMs;
  const waitMs = Math.max(leastMs, verdict.retryAfterMs ?? 0);
  return waitMs <= policy.longestRetryAfterMs ? waitMs : null;
}

function circuitOpen(url: string, retryAfterMs: number): ClientError {
  return new ClientError('CIRCUIT_OPEN', `${new URL(url).origin} failed too often`, {
    retryAfterMs,
  });
}
