import fc from 'fast-check';
import { expect, it } from 'vitest';
import { LIMITS } from '../engine/input.ts';
import { fingerprintHead } from './request/fingerprint.ts';
import { composeScope, ScopeMemory } from './scope.ts';
import { isExcluded, isSampled } from './selection.ts';

it('[E9] a scope is readable where it can be', () => {
  expect(composeScope('tenant-42', 'POST', '/v1/orders/:id')).toBe('tenant-42|POST /v1/orders/:id');
});

it('[E9] two principals or routes never share a scope, however they are spelled', () => {
  const part = fc.string({ unit: 'binary', minLength: 1, maxLength: 40 });
  const odd = fc.oneof(
    part,
    fc.constantFrom('a', 'a|', 'a|POST /x', 'a%7c', '~x', 'x'.repeat(600)),
  );
  const whole = fc.tuple(
    odd,
    fc.constantFrom('POST', 'PUT'),
    odd.map((path) => `/${path}`),
  );
  fc.assert(
    fc.property(whole, whole, (one, other) => {
      const same = one.every((piece, at) => piece === other[at]);
      const [first, second] = [composeScope(...one), composeScope(...other)];
      expect(first === second).toBe(same);
      expect(first.length).toBeLessThanOrEqual(LIMITS.scope);
      expect(first).toMatch(/^[\x20-\x7e]+$/);
    }),
    { numRuns: 500 },
  );
});

it('[E9] a remembered scope is the one that would be composed, however many there are', () => {
  const memory = new ScopeMemory();
  for (const round of [1, 2]) {
    for (let i = 0; i < 10_050; i += 1) {
      const [method, route] = [i % 3 === round ? 'PUT' : 'POST', `/r${i % 7}`];
      const { scope } = memory.compose(`p${i}`, method, route);
      if (scope !== composeScope(`p${i}`, method, route)) throw new Error(`${i} has ${scope}`);
    }
  }
  expect(() => memory.compose(undefined, 'POST', '/r1')).toThrow('scopeFrom gave no scope');
});

it('[H13] the head of a fingerprint is that of its own target, whichever came before', () => {
  const composed = new ScopeMemory().compose('ada', 'POST', '/orders');
  for (const target of [
    '/orders',
    '/orders?a',
    '/orders',
    `/orders?${'x'.repeat(5_000)}`,
    '/orders',
  ]) {
    const head = Buffer.from(composed.headOf(target)).toString();
    expect(head).toBe(
      Buffer.from(fingerprintHead('POST', '/orders', target, composed.scope)).toString(),
    );
  }
});

it('[E9] names that differ in half a character only are distinct', () => {
  expect(composeScope('a\ud800', 'POST', '/')).not.toBe(composeScope('a\ud801', 'POST', '/'));
});

it('[E9] a scope that is missing is refused with what to do', () => {
  for (const nothing of [undefined, null, '', 7]) {
    expect(() => composeScope(nothing, 'POST', '/')).toThrow('scopeFrom gave no scope');
  }
});

it('[H3] paths are excluded as they are, below a star, or by a pattern', () => {
  const list = ['/health', '/public/*', /^\/v\d\/x$/];
  const out = ['/health', '/public/', '/public/a/b', '/v1/x'];
  const managed = ['/healthy', '/public', '/v1/xy', '/'];
  for (const path of out) expect(isExcluded(list, path)).toBe(true);
  for (const path of managed) expect(isExcluded(list, path)).toBe(false);
});

it('[H10] the share of sampled keys is the share that was asked for', () => {
  const keys = Array.from({ length: 10_000 }, (_, i) => `key-${i}`);
  for (const rate of [0, 0.1, 0.5, 1]) {
    const share = keys.filter((key) => isSampled(key, rate)).length / keys.length;
    expect(Math.abs(share - rate)).toBeLessThan(0.03);
  }
});
