import fc from 'fast-check';
import { expect, it } from 'vitest';
import { canonicalBody } from './canonical-body.ts';

function canonical(text: string): string {
  const result = canonicalBody(Buffer.from(text));
  if (!result.ok) throw new Error(result.reason);
  return result.text;
}

function reasonOf(body: string | Uint8Array): string {
  const result = canonicalBody(Buffer.from(body as string));
  return result.ok ? 'none' : result.reason;
}

it('[H13] order, white space and spelling do not matter', () => {
  const one = canonical('{"b":[1,2.50,1e3],"a":"\\u00e9\\/","c":{}}');
  expect(canonical(' { "a" : "é/" , "c":{ }, "b" : [ 1.0 , 2.5, 1000 ] } ')).toBe(one);
  expect(canonical('{"b":[2.5,1,1000],"a":"é/","c":{}}')).not.toBe(one);
});

it('[H13] numbers are merged only when they are the same decimal', () => {
  for (const [one, other] of [
    ['1', '1.0'],
    ['0', '-0.0'],
    ['100', '1e2'],
    ['0.001', '1E-3'],
    ['12345678901234567890', '1234567890123456789.0e1'],
  ] as const) {
    expect(canonical(one)).toBe(canonical(other));
  }
  for (const [one, other] of [
    ['12345678901234567890', '12345678901234567891'],
    ['0.1', '0.1000000000000000055511151231257827'],
    ['1e400', '1e401'],
    ['9007199254740993', '9007199254740992'],
    ['-1', '1'],
  ] as const) {
    expect(canonical(one)).not.toBe(canonical(other));
  }
});

it('[H13] a repeated member is refused, however it is spelled', () => {
  expect(reasonOf('{"a":1,"a":1}')).toContain('repeats a member name');
  expect(reasonOf('{"a":1,"\\u0061":2}')).toContain('repeats a member name');
  expect(reasonOf('[{"x":{"a":1,"a":2}}]')).toContain('repeats a member name');
});

it('[H13] what is not JSON is refused with the place, and never throws', () => {
  for (const bad of [
    '',
    '{',
    '[1,]',
    '{"a":1,}',
    "{'a':1}",
    '01',
    '+1',
    '1 2',
    'nul',
    '"\n"',
    '{"a"}',
    '.5',
    '"\\x"',
  ]) {
    expect(reasonOf(bad)).toMatch(/not valid JSON at character \d+/);
  }
  expect(reasonOf(Uint8Array.of(0x22, 0xff, 0x22))).toContain('UTF-8');
  expect(reasonOf('['.repeat(10_000))).toContain('deeper than 200');
  expect(reasonOf('1e99999999999999')).toContain('exponent');
});

it('[H13] any value has one canonical form, whichever way it is written', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const reversed = (_name: string, member: unknown) =>
        member !== null && typeof member === 'object' && !Array.isArray(member)
          ? Object.fromEntries(Object.entries(member).reverse())
          : member;
      const spaced = JSON.stringify(value, reversed, 2);
      expect(canonical(spaced)).toBe(canonical(JSON.stringify(value)));
    }),
    { numRuns: 200 },
  );
});

it('[H13] it accepts what JSON.parse accepts, and nothing else, but for repeated members', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'{}[]",:0123.eE+-tfnulasr \\') }), (text) => {
      let valid = true;
      try {
        JSON.parse(text);
      } catch {
        valid = false;
      }
      const reason = reasonOf(text);
      if (reason.includes('repeats') || reason.includes('exponent')) return;
      expect(reason === 'none').toBe(valid);
    }),
    { numRuns: 2_000 },
  );
});
