import { type ClientWorld, MINUTE } from './client-world.ts';
import type { Verdict } from './verdict.ts';

export interface BreakerPolicy {
  /** So many failures within the window open the circuit. */
  readonly failures: number;
  readonly windowMs: number;
  readonly openMs: number;
}

export const BREAKER_DEFAULTS: BreakerPolicy = {
  failures: 10,
  windowMs: 1 * MINUTE,
  openMs: 1 * MINUTE,
};

/**
 * Leaves a server alone that keeps failing. Closed, it lets everything pass; after too many failures it opens
 * and lets nothing pass; when the time is over, a single attempt goes ahead and decides for the others.
 */
export class CircuitBreaker {
  readonly #world: ClientWorld;
  readonly #policy: BreakerPolicy;
  /** Times of the latest failures on the steady clock, at most `policy.failures` of them. */
  #failedAt: number[] = [];
  #openUntil: number | null = null;
  #probing = false;

  constructor(world: ClientWorld, policy: BreakerPolicy = BREAKER_DEFAULTS) {
    this.#world = world;
    this.#policy = policy;
  }

  /** 0: go ahead, and report what came of it. Otherwise how long to stay away. */
  admit(): number {
    if (this.#openUntil === null) return 0;
    const left = this.#openUntil - this.#world.elapsed();
    if (left > 0) return left;
    if (this.#probing) return this.#policy.openMs;
    this.#probing = true;
    return 0;
  }

  /**
   * What came of an admitted attempt. A server that is gone or broken counts as a failure, one that says no
   * does not; `null` and an abort tell nothing.
   */
  report(verdict: Verdict | null): void {
    if (verdict === null || verdict.kind === 'aborted') this.#probing = false;
    else if (isServerFault(verdict)) this.#failed(this.#world.elapsed());
    else {
      this.#failedAt = [];
      this.#openUntil = null;
      this.#probing = false;
    }
  }

  #failed(now: number): void {
    if (this.#openUntil !== null) {
      if (this.#probing) this.#openFrom(now);
      return;
    }
    this.#failedAt = this.#failedAt.filter((at) => now - at < this.#policy.windowMs);
    this.#failedAt.push(now);
    if (this.#failedAt.length >= this.#policy.failures) this.#openFrom(now);
  }

  #openFrom(now: number): void {
    this.#openUntil = now + this.#policy.openMs;
    this.#failedAt = [];
    this.#probing = false;
  }
}

/** One breaker per server, so that one that is down does not silence the others. */
export class Breakers {
  readonly #byOrigin = new Map<string, CircuitBreaker>();
  readonly #world: ClientWorld;
  readonly #policy: BreakerPolicy;

  constructor(world: ClientWorld, policy: BreakerPolicy = BREAKER_DEFAULTS) {
    this.#world = world;
    this.#policy = policy;
  }

  for(url: string): CircuitBreaker {
    // A relative address belongs to the page's own server.
    const origin = /^\w+:\/\/[^/?#]+/.exec(url)?.[0].toLowerCase() ?? '';
    let breaker = this.#byOrigin.get(origin);
    if (breaker === undefined) {
      breaker = new CircuitBreaker(this.#world, this.#policy);
      this.#byOrigin.set(origin, breaker);
    }
    return breaker;
  }
}

function isServerFault(verdict: Verdict): boolean {
  const isBroken = verdict.kind === 'transient' && verdict.reason.startsWith('HTTP 5');
  return verdict.kind === 'unreachable' || isBroken;
}
