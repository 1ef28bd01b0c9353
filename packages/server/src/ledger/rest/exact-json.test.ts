import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseExactJson } from './exact-json.ts';

describe('[L1] JSON of transactions', () => {
  it('keeps integers beyond 2^53 to the last digit', () => {
    expect(parseExactJson('{"amount":9007199254740993}')).toEqual({ amount: 9007199254740993n });
    const digits = '9'.repeat(75);
    expect(parseExactJson(`[-${digits}, ${digits} ]`)).toEqual([-BigInt(digits), BigInt(digits)]);
  });

  it('does not round a fraction to a whole number', () => {
    expect(parseExactJson('100.00000000000000001')).toBe('100.00000000000000001');
    expect(parseExactJson('99999999.999999999')).toBe('99999999.999999999');
    expect(parseExactJson('1.5')).toBe(1.5);
  });

  it('leaves a number of 10,000 digits as text', () => {
    const digits = '7'.repeat(10_000);
    expect(parseExactJson(digits)).toBe(digits);
  });

  it('leaves strings alone, whatever they hold', () => {
    const value = { text: 'a 12345678901234567890 "quoted" \\', other: '12345678901234567890' };
    expect(parseExactJson(JSON.stringify(value))).toEqual(value);
  });

  it.each([
    '01234567890123456789',
    '1234567890123456789.',
    '12345678901234567890"a"',
    '"12345678901234567890',
    '-12345678901234567890-1',
  ])('refuses %s as JSON.parse does', (text) => {
    expect(() => parseExactJson(text)).toThrow(SyntaxError);
  });

  it('agrees with JSON.parse on everything whose numbers are exact', () => {
    fc.assert(
      fc.property(fc.json(), (json) => {
        const withLong = `[${json},12345678901234567890]`;
        const expected = JSON.parse(json, (_key, value) =>
          typeof value === 'number' && String(value).length > 15 ? 'inexact' : value,
        );
        const found = parseExactJson(withLong) as [unknown, bigint];
        expect(found[1]).toBe(12345678901234567890n);
        if (!JSON.stringify(expected).includes('inexact'))
          expect(found[0]).toEqual(JSON.parse(json));
      }),
    );
  });
});

describe('[L11] an object with two members of one name', () => {
  it.each([
    ['{"a":1,"a":1}', 'a'],
    ['{"a":{"b":1},"c":[{"b":1 , "\\u0062"\t: 2}]}', 'b'],
    ['{"a":"\\"","b":{"c":"a:"},"a":2}', 'a'],
    ['{"__proto__":1,"__proto__":2}', '__proto__'],
    ['{"":12345678901234567890,"":1}', ''],
  ])('is refused by the name: %s', (text, name) => {
    expect(() => parseExactJson(text)).toThrow(`member ${JSON.stringify(name)} is there twice`);
  });

  it('is found in any JSON, and nothing else is taken for one', () => {
    fc.assert(
      fc.property(fc.json(), (json) => {
        expect(() => parseExactJson(json)).not.toThrow();
        expect(() => parseExactJson(`{"x":${json},"y":[${json}]}`)).not.toThrow();
        expect(() => parseExactJson(`[{"x":${json},"y":${json},"x":0}]`)).toThrow(/"x" is there/);
      }),
    );
  });
});
