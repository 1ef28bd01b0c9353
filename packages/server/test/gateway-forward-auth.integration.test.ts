import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type AuthQuestion, ForwardAuthServer, type Verdict } from './identity-servers.ts';
import { type RunningGateway, RunningGateways } from './running-gateways.ts';
import { UpstreamServer } from './upstream-server.ts';

const upstream = new UpstreamServer();
const gateways = new RunningGateways();
const revoked = new Set<string>();
const auth = new ForwardAuthServer(decide);
let upstreamUrl: string;
let authUrl: string;
let gateway: RunningGateway;

/** Tokens read `subject.serial`; some subjects make the server misbehave. */
function decide({ headers }: AuthQuestion): Verdict {
  const token = headers.authorization?.replace('Bearer ', '') ?? '';
  const [subject = ''] = token.split('.');
  if (revoked.has(token) || subject === '') {
    return { status: 401, headers: { 'www-authenticate': 'Bearer realm="shop"' } };
  }
  switch (subject) {
    case 'banned':
      return { status: 403 };
    case 'login':
      return { status: 302, headers: { location: '/login', 'x-auth-subject': 'login' } };
    case 'broken':
      return { status: 500, headers: { 'x-auth-subject': 'broken' } };
    case 'nameless':
      return { status: 200 };
    case 'twice':
      return { status: 200, headers: { 'x-auth-subject': ['ann', 'bob'] } };
    case 'slow':
      return { status: 200, headers: { 'x-auth-subject': 'slow' }, delayMs: 3_000 };
    case 'thinking':
      return { status: 200, headers: { 'x-auth-subject': 'thinking' }, delayMs: 500 };
    default:
      return { status: 204, headers: { 'X-Auth-Subject': subject } };
  }
}

beforeAll(async () => {
  upstreamUrl = await upstream.listen();
  authUrl = await auth.listen();
  gateway = await gateways.start(['--upstream', upstreamUrl, '--forward-auth-timeout', '1'], {
    ONCEWARD_SCOPE_FROM: `forward-auth:${authUrl}/check?for=shop`,
  });
});
afterAll(async () => {
  await gateways.stop();
  await auth.close();
  await upstream.close();
});

const ask = (path: string, token: string, key: string | null = 'k') =>
  gateway.post(path, key, { authorization: `Bearer ${token}` });
const runOf = async (response: Response) => (await response.json()).run as number;

it('[H19] the authentication server is asked before every keyed request and every replay', async () => {
  const before = auth.asked.length;
  const ann = await runOf(await ask('/each', 'ann.1'));
  expect(await runOf(await ask('/each', 'ann.2'))).toBe(ann);
  expect(await runOf(await ask('/each', 'bob.1'))).not.toBe(ann);
  expect(auth.asked.length).toBe(before + 3);
  await ask('/each', 'ann.1', null);
  expect(auth.asked.length).toBe(before + 3);
});

it('[H19] a revoked credential gets no replay but the refusal of the server', async () => {
  expect((await ask('/revoked', 'eve.1')).status).toBe(201);
  revoked.add('eve.1');
  const refused = await ask('/revoked', 'eve.1');
  expect(refused.status).toBe(401);
  expect(refused.headers.get('www-authenticate')).toBe('Bearer realm="shop"');
  expect(await refused.json()).toMatchObject({
    type: expect.stringMatching(/\/unauthorized$/),
    happened: 'no',
  });
  expect(upstream.count('/revoked')).toBe(1);
});

it('[H19] the server gets where the request came from, and only what it needs', async () => {
  await gateway.post('/told?x=1', 'k', {
    authorization: 'Bearer ann.1',
    cookie: 'a=1',
    'x-api-key': 'b',
    'x-auth-subject': 'bob',
    'x-forwarded-method': 'GET',
    'x-forwarded-uri': '/public',
  });
  const { method, url, headers } = auth.asked.at(-1)!;
  expect([method, url]).toEqual(['GET', '/check?for=shop']);
  expect(headers).toMatchObject({
    authorization: 'Bearer ann.1',
    cookie: 'a=1',
    'x-api-key': 'b',
    'x-forwarded-method': 'POST',
    'x-forwarded-uri': '/told?x=1',
    'x-forwarded-host': new URL(gateway.url).host,
    'x-forwarded-proto': 'http',
    'x-forwarded-for': '127.0.0.1',
  });
  for (const name of ['x-auth-subject', 'idempotency-key', 'content-length', 'content-type']) {
    expect(headers).not.toHaveProperty(name);
  }
});

it('[H19] anything but a 2xx with one subject is refused, and nothing runs', async () => {
  for (const [token, status, type] of [
    ['banned.1', 403, 'forbidden'],
    ['login.1', 502, 'identity-unusable'],
    ['nameless.1', 502, 'identity-unusable'],
    ['twice.1', 502, 'identity-unusable'],
    ['broken.1', 503, 'identity-unavailable'],
    ['slow.1', 503, 'identity-unavailable'],
  ] as const) {
    const refused = await ask('/refused', token);
    expect([token, refused.status]).toEqual([token, status]);
    expect(await refused.json()).toMatchObject({
      type: expect.stringMatching(new RegExp(`/${type}$`)),
      happened: 'no',
    });
  }
  expect(upstream.count('/refused')).toBe(0);
  expect(gateway.program.stderr).not.toContain('slow.1');
});

it('[H19] a server that is down stops keyed requests, and they go on when it is back', async () => {
  const down = new ForwardAuthServer(decide);
  const url = await down.listen();
  await down.close();
  const behind = await gateways.start(['--upstream', upstreamUrl], {
    ONCEWARD_SCOPE_FROM: `forward-auth:${url}`,
    ONCEWARD_FORWARD_AUTH_SUBJECT: 'X-Auth-Subject',
  });
  const headers = { authorization: 'Bearer ann.1' };
  expect((await behind.post('/down', 'k', headers)).status).toBe(503);
  expect((await behind.post('/down', null, headers)).status).toBe(201);
  const back = new ForwardAuthServer(decide);
  await back.listen(Number(new URL(url).port));
  expect((await behind.post('/down', 'k', headers)).status).toBe(201);
  expect(upstream.count('/down')).toBe(2);
  await back.close();
});

it('[H19] identity is decided before the body is read or asked for', async () => {
  const { hostname, port } = new URL(gateway.url);
  const headers = {
    'idempotency-key': 'k',
    'content-length': '500000',
    expect: '100-continue',
  };
  const sent = httpRequest({ hostname, port, method: 'POST', path: '/early', headers });
  sent.flushHeaders();
  let wasToldToGoOn = false;
  sent.on('continue', () => {
    wasToldToGoOn = true;
  });
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  expect([answer.statusCode, wasToldToGoOn]).toEqual([401, false]);
  sent.on('error', () => {}).destroy();
  expect(upstream.count('/early')).toBe(0);
});

it('[H19] a client that leaves while the server is asked leaves nothing behind', async () => {
  const { hostname, port } = new URL(gateway.url);
  const asked = auth.asked.length + 40;
  const answered = auth.answered + 40;
  // More than all the room for bodies together, if any of them kept its share.
  const leaving = Array.from({ length: 40 }, (_, index) => {
    const headers = {
      authorization: 'Bearer thinking.1',
      'idempotency-key': `leaving-${index}`,
      'content-length': '1000000',
    };
    const sent = httpRequest({ hostname, port, method: 'POST', path: '/leaving', headers });
    sent.on('error', () => {}).write('half');
    return sent;
  });
  const until = async (isSo: () => boolean) => {
    for (let tries = 0; tries < 400 && !isSo(); tries += 1) await sleep(25);
  };
  await until(() => auth.asked.length >= asked);
  for (const sent of leaving) sent.destroy();
  await until(() => auth.answered >= answered);
  for (const key of ['after-1', 'after-2']) {
    const headers = { authorization: 'Bearer ann.1' };
    const body = Buffer.alloc(900_000);
    const signal = AbortSignal.timeout(5_000);
    const after = await gateway.post('/after', key, headers, { body, signal });
    expect(after.status).toBe(201);
  }
  expect(upstream.count('/leaving')).toBe(0);
});
