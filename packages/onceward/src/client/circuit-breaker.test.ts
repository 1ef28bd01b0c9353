import { describe, expect, it } from 'vitest';
import { breakersBy, CircuitBreaker } from './circuit-breaker.ts';
import { realWorld } from './client-world.ts';

const GONE = { kind: 'unreachable', reason: '', ran: 'unknown' } as const;

function clockwork() {
  let now = 0;
  const world = { ...realWorld, elapsed: () => now };
  return { world, pass: (ms: number) => (now += ms) };
}

function fail(breaker: CircuitBreaker, times: number): void {
  for (let i = 0; i < times; i += 1) {
    expect(breaker.admit()).toBe(0);
    breaker.report(GONE);
  }
}

describe('circuit breaker', () => {
  it('[C5] opens after ten failures within a minute and stays open for a minute', () => {
    const { world, pass } = clockwork();
    const breaker = new CircuitBreaker(world);
    fail(breaker, 9);
    expect(breaker.admit()).toBe(0);
    breaker.report(GONE);
    expect(breaker.admit()).toBe(60_000);
    pass(59_999);
    expect(breaker.admit()).toBe(1);
    pass(1);
    expect(breaker.admit()).toBe(0);
  });

  it('[C5] failures that are spread over more than a minute do not open it', () => {
    const { world, pass } = clockwork();
    const breaker = new CircuitBreaker(world);
    for (let i = 0; i < 30; i += 1) {
      fail(breaker, 1);
      pass(6_700);
    }
    expect(breaker.admit()).toBe(0);
  });

  it('[C5] an answer closes it and forgets the failures', () => {
    const { world } = clockwork();
    const breaker = new CircuitBreaker(world);
    fail(breaker, 9);
    breaker.report({ kind: 'done' });
    fail(breaker, 9);
    expect(breaker.admit()).toBe(0);
  });

  it('[C5] after the minute one attempt goes ahead, and decides for the others', () => {
    const { world, pass } = clockwork();
    const breaker = new CircuitBreaker(world);
    fail(breaker, 10);
    pass(60_000);
    expect(breaker.admit()).toBe(0);
    expect(breaker.admit()).toBeGreaterThan(0);
    breaker.report(GONE);
    expect(breaker.admit()).toBe(60_000);
    pass(60_000);
    expect(breaker.admit()).toBe(0);
    breaker.report({ kind: 'done' });
    expect(breaker.admit()).toBe(0);
    expect(breaker.admit()).toBe(0);
  });

  it('[C5] an attempt that was taken back does not keep the next one out', () => {
    const { world, pass } = clockwork();
    const breaker = new CircuitBreaker(world);
    fail(breaker, 10);
    pass(60_000);
    expect(breaker.admit()).toBe(0);
    breaker.report({ kind: 'aborted' });
    expect(breaker.admit()).toBe(0);
  });

  it('[C5] a server that says no, or not now, is not a server that failed', () => {
    const breaker = new CircuitBreaker(clockwork().world);
    const busy = { kind: 'transient', reason: 'HTTP 429', ran: 'no', retryAfterMs: null } as const;
    for (let i = 0; i < 30; i += 1) breaker.report(i % 2 ? busy : { kind: 'refused', reason: '' });
    expect(breaker.admit()).toBe(0);
    for (let i = 0; i < 10; i += 1) breaker.report({ ...busy, reason: 'HTTP 503: down' });
    expect(breaker.admit()).toBeGreaterThan(0);
  });

  it('[C5] one server that is down does not silence another', () => {
    const breakerFor = breakersBy(clockwork().world);
    fail(breakerFor('https://down.test/a?b'), 10);
    expect(breakerFor('HTTPS://DOWN.test').admit()).toBeGreaterThan(0);
    expect(breakerFor('https://up.test/a').admit()).toBe(0);
    expect(breakerFor('/relative').admit()).toBe(0);
  });
});
