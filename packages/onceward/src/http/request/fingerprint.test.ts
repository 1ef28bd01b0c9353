import { expect, it } from 'vitest';
import { fingerprint, fingerprintHead } from './fingerprint.ts';

const base = {
  request: { id: 1 },
  method: 'POST',
  target: '/orders?x=1',
  route: '/orders',
  contentType: 'application/json; charset=utf-8',
  keyLines: { standard: 'k', alias: undefined, repeated: false },
};

function print(
  changes: Partial<typeof base> = {},
  body: string | Uint8Array = '{"a":1}',
  scope = 'ada',
  rule: Parameters<typeof fingerprint<typeof base.request>>[0] = 'raw',
): string {
  const facts = { ...base, ...changes };
  const head = fingerprintHead(facts.method, facts.route, facts.target, scope);
  const result = fingerprint(rule, facts, head, Buffer.from(body as string));
  if (!result.ok) throw new Error(result.reason);
  return result.value;
}

it('[H13] method, route, target, scope and every byte of the body count', () => {
  const prints = [
    print(),
    print({ method: 'PUT' }),
    print({ target: '/orders?x=2' }),
    print({ route: '/other' }),
    print({}, '{"a":1}', 'bob'),
    print({}, '{"a":1} '),
    print({}, ''),
    print({}, Uint8Array.of(0)),
    print({}, Uint8Array.of(0, 0)),
    print({}, Buffer.alloc(100_000)),
    print({}, Buffer.alloc(100_001)),
  ];
  expect(new Set(prints).size).toBe(prints.length);
  expect(print()).toBe(print());
});

it('[H13] bytes cannot wander from one part into the next', () => {
  const one = print({ route: '/a', target: '/b' });
  const other = print({ route: '/a,2:/b', target: '' });
  expect(one).not.toBe(other);
});

it('[H13] large and small bodies of the same bytes are hashed alike', () => {
  const long = Buffer.alloc(65_537, 'é');
  expect(print({}, long)).toBe(print({}, Buffer.from(long)));
});

it('[H13] canonical JSON is for JSON only', () => {
  const spaced = '{ "a" : 1.0 }';
  expect(print({}, spaced, 'ada', 'canonical')).toBe(print({}, '{"a":1}', 'ada', 'canonical'));
  const text = { contentType: 'text/plain' };
  expect(print(text, spaced, 'ada', 'canonical')).not.toBe(
    print(text, '{"a":1}', 'ada', 'canonical'),
  );
  expect(print({ contentType: 'application/vnd.x+json' }, spaced, 'ada', 'canonical')).toBe(
    print({ contentType: 'application/vnd.x+json' }, '{"a":1}', 'ada', 'canonical'),
  );
  const head = fingerprintHead('POST', '/orders', '/orders', 'ada');
  const result = fingerprint('canonical', base, head, Buffer.from('{"a":1,"a":2}'));
  expect(result).toMatchObject({ ok: false });
});

it('[H13] a hook gives what is compared', () => {
  const rule = (_request: object, body: Uint8Array) => String(body.length);
  expect(print({}, 'abc', 'ada', rule)).toBe(print({}, 'xyz', 'ada', rule));
  expect(print({}, 'abc', 'ada', rule)).not.toBe(print({}, 'abcd', 'ada', rule));
});
