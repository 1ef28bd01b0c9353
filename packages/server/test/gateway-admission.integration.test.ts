import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunningGateway, startGateway } from './running-gateway.ts';
import { temporaryFolder } from './running-program.ts';
import { UpstreamServer } from './upstream-server.ts';

const upstream = new UpstreamServer();
const folder = temporaryFolder();
let gateway: RunningGateway;
beforeAll(async () => {
  const file = join(folder.path, 'routes.json');
  const routes = [
    { path: '/payments/*', IDEMPOTENCY_REQUIRE_KEY: true },
    { path: '/open/*', IDEMPOTENCY_MODE: 'off' },
  ];
  const settings = {
    ONCEWARD_UPSTREAM: await upstream.listen(),
    IDEMPOTENCY_EXCLUDED_PATHS: '/health/*',
  };
  writeFileSync(file, JSON.stringify({ ...settings, routes }));
  gateway = await startGateway(['--config', file]);
});
afterAll(async () => {
  await gateway.stop();
  await upstream.close();
  folder.remove();
});

function send(method: string, target: string, headers: readonly string[] = []) {
  const lines = [`${method} ${target} HTTP/1.1`, 'Host: a', 'Connection: close', ...headers];
  if (method === 'POST') lines.push('Content-Length: 2');
  const body = method === 'POST' ? '{}' : '';
  return gateway.ask(`${lines.join('\r\n')}\r\n\r\n${body}`);
}

describe('[H15] a target that is no plain path', () => {
  for (const [what, target, says] of [
    ['in absolute form', 'http://127.0.0.1:1/secret', 'begins with /'],
    ['that names a host by two slashes', '//127.0.0.1:1/secret', 'one / only'],
    ['that names a host by a backslash', '/\\127.0.0.1:1/secret', 'one / only'],
    ['that is an asterisk', '*', 'begins with /'],
    ['with a fragment', '/a#b', 'fragment'],
    ['with half an encoding', '/a%2', 'hexadecimal'],
    ['with an encoded control character', '/a%00b', 'control character'],
  ] as const) {
    it(`${what} is refused with 400 and its reason`, async () => {
      const before = upstream.seen.length;
      for (const upgrade of [[], ['Connection: Upgrade', 'Upgrade: websocket']]) {
        const method = target === '*' ? 'OPTIONS' : 'GET';
        const { status, text } = await send(method, target, upgrade);
        expect([status, text]).toEqual([400, expect.stringContaining(says)]);
        expect(text).toMatch(/content-type: application\/problem\+json/i);
      }
      expect(upstream.seen.length).toBe(before);
    });
  }
});

describe('[H15] the rules of a route', () => {
  for (const target of [
    '/payments',
    '/payments/',
    '/payments?x=1',
    '/payments/1',
    '/PAYMENTS/1',
    '//payments/1',
    '/./payments/1',
    '/x/../payments/1',
    '/x/%2e%2e/payments/1',
    '/x/..//payments/1',
    '/%70ayments/1',
    '/%70%61yments%2F1',
    '/payments%5c1',
    '/payments%3bv=1/1',
    '/payments;v=1/1',
    '/x/..%2fpayments/1',
    '/x\\..\\payments\\1',
    '/open/../payments/1',
    '/payments/../open/1',
    '/health/../payments/1',
    '/health/..%2fpayments/1',
  ]) {
    it(`are not escaped by the spelling ${target}`, async () => {
      const before = upstream.seen.length;
      const { status } = await send('POST', target);
      expect(status).toBe(400);
      expect(upstream.seen.length).toBe(before);
    });
  }

  it('apply to a path that is needlessly encoded as to the plain one', async () => {
    const headers = ['Idempotency-Key: spelt-1'];
    expect((await send('POST', '/%70ayments/77', headers)).status).toBe(201);
    const again = await send('POST', '/%70ayments/77', headers);
    expect(again.text).toMatch(/idempotency-replayed: true/);
    // The same record: another spelling is another request under the same key.
    expect((await send('POST', '/payments/77', headers)).status).toBe(422);
    expect(upstream.count('/%70ayments/77')).toBe(1);
  });

  it('leave encoded slashes alone where no rule depends on them', async () => {
    for (const target of ['/projects/a%2Fb', '/open/a%2Fb;v=1', '/files/a//b', '/caf%C3%A9']) {
      expect((await send('POST', target)).status).toBe(201);
      expect(upstream.last().url).toBe(target);
    }
  });
});
