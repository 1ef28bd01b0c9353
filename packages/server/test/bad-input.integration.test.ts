import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exchangeRaw } from './raw-exchange.ts';
import { ADMIN, startServer } from './running-program.ts';

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

const LONG = 'x'.repeat(20_000);
const json = 'Content-Type: application/json';
const admin = Object.entries(ADMIN).map(([name, value]) => `${name}: ${value}`);

function request(first: string, headers: readonly string[] = [], body = ''): Buffer {
  const length = body === '' ? [] : [`Content-Length: ${Buffer.byteLength(body)}`];
  return Buffer.from([first, 'Host: localhost', ...headers, ...length, '', body].join('\r\n'));
}

const order = (headers: readonly string[], body = '{"item":"a","amount":1}') =>
  request('POST /demo/v1/orders HTTP/1.1', [json, ...headers], body);
const reserve = (body: string, headers = [json]) =>
  request('POST /v1/operations/reserve HTTP/1.1', [...admin, ...headers], body);

const CASES: readonly [what: string, status: number, says: RegExp, bytes: Buffer][] = [
  ['a request line of nonsense', 400, /well-formed/, Buffer.from('hello\r\n\r\n')],
  ['an unknown method', 400, /well-formed/, request('FLY / HTTP/1.1')],
  ['the preface of HTTP/2', 400, /well-formed/, Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
  ['no host', 400, /Host/, Buffer.from('GET /healthz HTTP/1.1\r\n\r\n')],
  ['a header with a NUL', 400, /well-formed/, request('GET / HTTP/1.1', ['X: a\0b'])],
  ['headers without end', 431, /16 KiB/, request('GET / HTTP/1.1', [`X: ${LONG}`])],
  ['an address without end', 431, /16 KiB/, request(`GET /${LONG} HTTP/1.1`)],
  [
    'two lengths',
    400,
    /well-formed/,
    request('POST / HTTP/1.1', ['Content-Length: 1', 'Content-Length: 2']),
  ],
  [
    'a length and chunks at once',
    400,
    /well-formed/,
    request('POST / HTTP/1.1', ['Content-Length: 1', 'Transfer-Encoding: chunked']),
  ],
  [
    'chunks of no known size',
    400,
    /well-formed/,
    request('POST /demo/v1/orders HTTP/1.1', [json, 'Transfer-Encoding: chunked'], 'zz\r\n'),
  ],
  ['an expectation', 417, /100-continue/, order(['Expect: a miracle'])],
  ['a tunnel', 400, /tunnel/, request('CONNECT a:1 HTTP/1.1')],
  ['a path with a broken escape', 400, /%/, request('GET /v1/operations/%zz/a HTTP/1.1', admin)],
  ['a path that nobody serves', 404, /\/docs\//, request('GET /nothing HTTP/1.1')],
  ['a method that a path does not have', 404, /DELETE/, request('DELETE /healthz HTTP/1.1')],
  ['JSON that breaks off', 400, /JSON/, order([], '{"item":')],
  ['JSON that reaches for the prototype', 400, /JSON/, order([], '{"__proto__":{"a":1}}')],
  ['no body at all', 400, /item|body/, order([], '')],
  ['a body of another kind', 415, /application\/json/, reserve('<a/>', ['Content-Type: text/xml'])],
  ['a body over the limit', 413, /shorter/, reserve(`{"scope":"${'s'.repeat(1_100_000)}"}`)],
  ['a body that is nested without end', 400, /JSON/, reserve('['.repeat(50_000))],
  ['a blank key', 400, /key/, order(['Idempotency-Key: '])],
  ['a key with a space', 400, /key/, order(['Idempotency-Key: a b'])],
  ['a key beyond ASCII', 400, /key/, order(['Idempotency-Key: clé'])],
  ['a key of 201 characters', 400, /200/, order([`Idempotency-Key: ${'k'.repeat(201)}`])],
  ['a quote that is not closed', 400, /quote/, order(['Idempotency-Key: "abc'])],
  ['two keys', 400, /one line/, order(['Idempotency-Key: a', 'Idempotency-Key: b'])],
  ['two key headers', 400, /one of them/, order(['Idempotency-Key: a', 'X-Idempotency-Key: b'])],
  ['a limit of nothing', 400, /limit/, request('GET /admin/audit?limit=0 HTTP/1.1', admin)],
  [
    'a state that does not exist',
    400,
    /state/,
    request('GET /admin/idempotency/recent?state=lost HTTP/1.1', admin),
  ],
];

describe('[H12] bad input', () => {
  for (const [what, status, says, bytes] of CASES) {
    it(`is refused with ${status} and what to change: ${what}`, async () => {
      const answer = await exchangeRaw(server.url, [bytes]);
      expect(answer.hung).toBe(false);
      expect(answer.status).toBe(status);
      const [head = '', body = ''] = answer.text.split('\r\n\r\n');
      expect(head).toMatch(/^content-type: application\/problem\+json/im);
      expect(JSON.parse(body)).toMatchObject({ status, detail: expect.stringMatching(says) });
      expect(body).not.toMatch(/\bat .*:\d+|node_modules|\.ts\b/);
    });
  }

  it('leaves nothing behind: nothing is stored and no handler ran', async () => {
    const recent = await fetch(`${server.url}/admin/idempotency/recent`, { headers: ADMIN });
    expect(await recent.json()).toMatchObject({ records: [] });
    const effects = await fetch(`${server.url}/demo/v1/effects`);
    expect(await effects.json()).toEqual({ orders: 0 });
  });
});
