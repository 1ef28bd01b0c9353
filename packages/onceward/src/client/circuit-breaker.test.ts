import { describe, expect, it } from 'vitest';
import { Breakers, CircuitBreaker } from './circuit-breaker.ts';
import { realWorld } from './client-world.ts';

function clockwork() {
  let now = 0;
  const world = { ...realWorld, elapsed: () => now };
  return { world, pass: (ms: number) => (now += ms) };
}

function fail(breaker: CircuitBreaker, times: number): void {
  for (let i = 0; i < times; i += 1) {
    expect(breaker.admit()).toBe(0);
    breaker.failed();
  }
}

describe('circuit breaker', () => {
  it('[C5] opens after ten failures within a minute and stays open for a minute', () => {
    const { world, pass } = clockwork();
    const breaker = new CircuitBreaker(world);
    fail(breaker, 9);
    expect(breaker.admit()).toBe(0);
    breaker.failed();
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
    expect(breaker.open).toBe(false);
  });

  it('[C5] an answer closes it and forgets the failures', () => {
    const { world } = clockwork();
    const breaker = new CircuitBreaker(world);
    fail(breaker, 9);
    breaker.succeeded();
    fail(breaker, 9);
    expect(breaker.open).toBe(false);
  });

  it('[C5] after the minute one attempt goes ahead, and decides for the others', () => {
    const { world, pass } = clockwork();
    const breaker = new CircuitBreaker(world);
    fail(breaker, 10);
    pass(60_000);
    expect(breaker.admit()).toBe(0);
    expect(breaker.admit()).toBeGreaterThan(0);
    breaker.failed();
    expect(breaker.admit()).toBe(60_000);
    pass(60_000);
    expect(breaker.admit()).toBe(0);
    breaker.succeeded();
    expect(breaker.admit()).toBe(0);
    expect(breaker.admit()).toBe(0);
  });

  it('[C5] an attempt that was taken back does not keep the next one out', () => {
    const { world, pass } = clockwork();
    const breaker = new CircuitBreaker(world);
    fail(breaker, 10);
    pass(60_000);
    expect(breaker.admit()).toBe(0);
    breaker.abandoned();
    expect(breaker.admit()).toBe(0);
  });

  it('[C5] one server that is down does not silence another', () => {
    const breakers = new Breakers(clockwork().world);
    fail(breakers.for('https://down.test/a?b'), 10);
    expect(breakers.for('HTTPS://DOWN.test').admit()).toBeGreaterThan(0);
    expect(breakers.for('https://up.test/a').admit()).toBe(0);
    expect(breakers.for('/relative').admit()).toBe(0);
  });
});
