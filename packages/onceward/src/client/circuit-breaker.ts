import { type ClientWorld, MINUTE } from './client-world.ts';
import { LONGEST_WAIT } from './retry-policy.ts';
import type { Verdict } from './verdict.ts';

export interface BreakerPolicy {
  /** So many failures within the window open the circuit. */
  readonly failures: number;
  readonly windowMs: number;
  readonly openMs: number;
}

export const BREAKER_DEFAULTS: BreakerPolicy = {
  failures: 10,
  windowMs: MINUTE,
  openMs: MINUTE,
};

/** How soon to check again while others are in flight. */
const SOON_MS = 250;

/**
 * Leaves a server alone that keeps failing. Closed, it lets everything pass; after too many failures it opens
 * and lets nothing pass; when the time is over, a single attempt goes ahead and decides for the others.
 *
 * A server that limits its callers is left alone for as long as it asks; then one attempt at a time is let through, and
 * with each that is taken one more.
 */
export class CircuitBreaker {
  readonly #world: ClientWorld;
  readonly #policy: BreakerPolicy;
  /** Times of the latest failures on the steady clock, at most `policy.failures` of them. */
  #failedAt: number[] = [];
  /** On the steady clock, and kept while a single attempt goes ahead; 0: closed. */
  openUntil = 0;
  #probing = false;
  #inFlight = 0;
  /** More than any caller sends at once, until the server says otherwise. */
  #width = 10_000;

  constructor(world: ClientWorld, policy: BreakerPolicy = BREAKER_DEFAULTS) {
    this.#world = world;
    this.#policy = policy;
  }

  /** How long it stays open; less than 0 if it does not. */
  leftMs(): number {
    return this.openUntil - this.#world.elapsed();
  }

  /**
   * 0: go ahead, and report what came of it. Otherwise how long to stay away. `isUrgent`: someone asks for a try now,
   * which is the single attempt that decides, however long the circuit was to stay open.
   */
  admit(isUrgent?: boolean): number {
    const left = this.leftMs();
    if (left > 0 && !isUrgent) return left;
    if (this.#probing || this.#inFlight >= this.#width) return SOON_MS;
    this.#probing = this.openUntil > 0;
    this.#inFlight += 1;
    return 0;
  }

  /**
   * What came of an admitted attempt. A server that is down or broken counts as a failure, one that refuses
   * does not; `null` and an aborted attempt count as neither. `isPatient`: the caller waits for a server that
   * limits it.
   */
  report(verdict: Verdict | null, isPatient?: boolean): void {
    const now = this.#world.elapsed();
    this.#inFlight -= 1;
    if (verdict === null || /aborted|not_sent/.test(verdict.kind)) this.#probing = false;
    else if (isPatient && verdict.kind === 'transient' && verdict.isBusy && verdict.retryAfterMs) {
      this.#width = 1;
      this.#openFrom(now, Math.min(verdict.retryAfterMs, LONGEST_WAIT));
    } else if (
      verdict.kind === 'unreachable' ||
      (verdict.kind === 'transient' && verdict.reason.startsWith('HTTP 5'))
    ) {
      const { windowMs, failures } = this.#policy;
      this.#failedAt = [...this.#failedAt.filter((at) => now - at < windowMs), now];
      if (this.#probing || this.#failedAt.length >= failures) this.#openFrom(now);
    } else {
      this.#width += 1;
      this.#failedAt = [];
      this.openUntil = 0;
      this.#probing = false;
    }
  }

  #openFrom(now: number, ms = this.#policy.openMs): void {
    this.openUntil = Math.max(this.openUntil, now + ms);
    this.#failedAt = [];
    this.#probing = false;
  }
}

/** One breaker per server, so that one that is down does not silence the others. */
export function breakersBy(
  world: ClientWorld,
  policy?: BreakerPolicy,
): (url: string) => CircuitBreaker {
  const byOrigin = new Map<string, CircuitBreaker>();
  return (url) => {
    // A relative address belongs to the page's own server.
    const origin = /^\w+:\/\/[^/?#]+/.exec(url)?.[0].toLowerCase() ?? '';
    const breaker = byOrigin.get(origin) ?? new CircuitBreaker(world, policy);
    byOrigin.set(origin, breaker);
    return breaker;
  };
}
