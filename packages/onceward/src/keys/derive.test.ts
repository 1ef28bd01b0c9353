import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  canonicalJson,
  checkKey,
  deriveKey,
  maskKey,
  sha256Hex,
  VOLATILE_FIELDS,
} from './index.ts';

interface Vectors {
  readonly volatile_fields: string[];
  readonly derived: {
    readonly name: string;
    readonly method: string;
    readonly path_template: string;
    readonly tenant: string;
    readonly subject: string;
    readonly body?: unknown;
    readonly volatile_fields?: string[];
    readonly key: string;
  }[];
  readonly masked: { readonly key: string; readonly masked: string }[];
}

/** Computed by a second implementation in another language, so that they can disagree with this one. */
const vectors = JSON.parse(
  readFileSync(new URL('../../../../docs/reference/key-vectors.json', import.meta.url), 'utf8'),
) as Vectors;

describe('derived keys', () => {
  it.each(vectors.derived)('[C2] published vector: $name', (vector) => {
    const key = deriveKey({
      method: vector.method,
      pathTemplate: vector.path_template,
      tenant: vector.tenant,
      subject: vector.subject,
      ...('body' in vector ? { body: vector.body } : {}),
      ...(vector.volatile_fields ? { volatileFields: vector.volatile_fields } : {}),
    });
    expect(key).toBe(vector.key);
    expect(checkKey('http', key).ok).toBe(true);
  });

  it('[C2] the published list of volatile fields is the one in use', () => {
    expect(vectors.volatile_fields).toEqual(VOLATILE_FIELDS);
  });

  it('[C2] a part that holds a line break is refused, for it could pose as the next part', () => {
    const material = { method: 'POST', pathTemplate: '/a', tenant: 't\nu', subject: '' };
    expect(() => deriveKey(material)).toThrow(/tenant holds a line break/);
  });

  it('[C2] the order of members never matters and any other change does', () => {
    const derive = (body: unknown) =>
      deriveKey({ method: 'POST', pathTemplate: '/a', tenant: 't', subject: 's', body });
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.integer(), (body, other) => {
        const turned = Object.fromEntries(Object.entries(body).reverse());
        expect(derive(turned)).toBe(derive(body));
        expect(derive({ ...body, 'one more': other })).not.toBe(
          derive({ ...body, 'one more': other + 0.5 }),
        );
      }),
      { numRuns: 200 },
    );
  });
});

describe('canonical JSON', () => {
  it.each<[unknown, string]>([
    [
      [JSON.parse('333333333.33333329'), 1e30, 4.5, 2e-3, 1e-27],
      '[333333333.3333333,1e+30,4.5,0.002,1e-27]',
    ],
    ['€$\u000f\nA\'B"\\"/', '"€$\\u000f\\nA\'B\\"\\\\\\"/"'],
    [-0, '0'],
    [
      { '\u20ac': 1, '\r': 2, '\ufb33': 3, '1': 4, '\u{1f600}': 5, '\u0080': 6, '\u00f6': 7 },
      '{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}',
    ],
    [{ b: undefined, a: new Date(0) }, '{"a":"1970-01-01T00:00:00.000Z"}'],
  ])('[C2] %j is written in the one spelling of RFC 8785', (value, spelling) => {
    expect(canonicalJson(value)).toBe(spelling);
  });

  it('[C2] what JSON cannot carry is refused with its place', () => {
    const cycle: { self?: unknown } = {};
    cycle.self = { deeper: cycle };
    let deep: unknown = 1;
    for (let i = 0; i < 300; i += 1) deep = [deep];
    const refused: [unknown, RegExp][] = [
      [{ a: [1, Number.NaN] }, /\$\.a\[1\] is NaN/],
      [{ a: 1n }, /\$\.a is bigint/],
      [[undefined], /\$\[0\] is undefined/],
      [{ a: new Map() }, /\$\.a is Map/],
      [cycle, /\$\.self\.deeper is a cycle/],
      [deep, /deeper than 200/],
      ['\ud800', /surrogate/],
      [() => 1, /function/],
    ];
    for (const [value, message] of refused) expect(() => canonicalJson(value)).toThrow(message);
  });

  it('[C2] canonical JSON parses back to the same value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
        expect(canonicalJson(JSON.parse(canonicalJson(value)))).toBe(canonicalJson(value));
      }),
      { numRuns: 100 },
    );
  });
});

describe('SHA-256 and masking', () => {
  it('[C2] the plain SHA-256 agrees with the platform at every length around a block', () => {
    for (let length = 0; length < 200; length += 1) {
      const bytes = Uint8Array.from({ length }, (_, i) => (i * 31 + length) & 255);
      expect(sha256Hex(bytes)).toBe(createHash('sha256').update(bytes).digest('hex'));
    }
    const large = new Uint8Array(1_000_003).fill(7);
    expect(sha256Hex(large)).toBe(createHash('sha256').update(large).digest('hex'));
  });

  it.each(vectors.masked)('[H11] $key is logged as $masked', ({ key, masked }) => {
    expect(maskKey(key)).toBe(masked);
  });

  it('[H11] a masked key never shows more than six characters or a quarter, nor a control character', () => {
    expect(maskKey('abc')).toMatch(/^~[0-9a-f]{8}$/);
    expect(maskKey('x'.repeat(200))).toMatch(/^x{6}~[0-9a-f]{8}$/);
    expect(maskKey('\n\u001b[2J and so on and on and on')).toMatch(/^[\x21-\x7e]+$/);
  });
});
