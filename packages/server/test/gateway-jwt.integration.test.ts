import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  KeySetServer,
  newSigner,
  type Signer,
  signedWithPublicKey,
  unsigned,
} from './identity-servers.ts';
import { type RunningGateway, RunningGateways } from './running-gateways.ts';
import { temporaryFolder } from './running-program.ts';
import { UpstreamServer } from './upstream-server.ts';

const ISSUER = 'https://issuer.test';
const AUDIENCE = 'https://api.test';
const upstream = new UpstreamServer();
const gateways = new RunningGateways();
const folder = temporaryFolder();
let upstreamUrl: string;
let signer: Signer;
let elliptic: Signer;
let gateway: RunningGateway;

beforeAll(async () => {
  upstreamUrl = await upstream.listen();
  signer = await newSigner('rsa-1');
  elliptic = await newSigner('ec-1', 'ES256');
  const file = join(folder.path, 'keys.json');
  writeFileSync(file, JSON.stringify({ keys: [signer.jwk, elliptic.jwk] }));
  gateway = await gateways.start([
    ...['--upstream', upstreamUrl, '--scope-from', 'jwt:sub', '--jwks', file],
    ...['--jwt-issuer', ISSUER, '--jwt-audience', `${AUDIENCE},https://other.test`],
  ]);
});
afterAll(async () => {
  await gateways.stop();
  await upstream.close();
  folder.remove();
});

const good = { iss: ISSUER, aud: AUDIENCE, sub: 'ann' };
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const runOf = async (response: Response) => (await response.json()).run as number;

it('[H19] a refreshed token of the same subject finds the same key, another subject does not', async () => {
  const ask = async (token: string) => runOf(await gateway.post('/refresh', 'k', bearer(token)));
  const ann = await ask(await signer.sign(good));
  expect(await ask(await signer.sign({ ...good, jti: 'second' }, '2h'))).toBe(ann);
  expect(await ask(await elliptic.sign(good))).toBe(ann);
  expect(await ask(await signer.sign({ ...good, sub: 'bob' }))).not.toBe(ann);
  expect(upstream.count('/refresh')).toBe(2);
});

it('[H19] a token that does not hold gets 401, and neither a run nor a replay', async () => {
  const original = await gateway.post('/bad', 'k', bearer(await signer.sign(good)));
  expect(original.status).toBe(201);
  const forger = await newSigner('rsa-1');
  const stranger = await newSigner('rsa-9');
  const { iss: _issuer, ...noIssuer } = good;
  const { sub: _subject, ...noSubject } = good;
  const whole = await signer.sign(good);
  const bad: Record<string, string> = {
    expired: await signer.sign(good, '-1 minute'),
    forged: await forger.sign(good),
    'of an unknown key': await stranger.sign(good),
    unsigned: unsigned(good),
    'signed with the public key': signedWithPublicKey(good, 'rsa-1', signer.pem),
    'of another audience': await signer.sign({ ...good, aud: 'https://elsewhere.test' }),
    'of another issuer': await signer.sign({ ...good, iss: 'https://evil.test' }),
    'of no issuer': await signer.sign(noIssuer),
    'of no subject': await signer.sign(noSubject),
    'of an empty subject': await signer.sign({ ...good, sub: '' }),
    'not yet valid': await signer.sign({ ...good, nbf: Math.floor(Date.now() / 1_000) + 600 }),
    tampered: `${whole.slice(0, -6)}AAAAAA`,
    'no token': 'abc',
  };
  for (const [what, token] of Object.entries(bad)) {
    const refused = await gateway.post('/bad', 'k', bearer(token));
    expect([what, refused.status]).toEqual([what, 401]);
    expect(refused.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"');
    expect(refused.headers.get('idempotency-replayed')).toBe('false');
    const text = await refused.text();
    expect(JSON.parse(text)).toMatchObject({
      type: expect.stringMatching(/\/unauthorized$/),
      retry: 'same_key',
      happened: 'no',
    });
    expect(text).not.toContain(token);
  }
  for (const authorization of ['Basic YW5uOjE=', 'Bearer', `Bearer ${whole} x`]) {
    expect((await gateway.post('/bad', 'k', { authorization })).status).toBe(401);
  }
  // Two lines, which fetch would join to one.
  const other = await signer.sign({ ...good, sub: 'bob' });
  const headers = ['host', 'shop.test', 'idempotency-key', 'k', 'content-length', '0'];
  headers.push('authorization', `Bearer ${whole}`, 'authorization', `Bearer ${other}`);
  const twice = httpRequest(`${gateway.url}/bad`, { method: 'POST', headers }).end();
  const [answer] = (await once(twice, 'response')) as [IncomingMessage];
  answer.resume();
  expect(answer.statusCode).toBe(401);
  expect(upstream.count('/bad')).toBe(1);
  expect(gateway.program.stderr).not.toContain(whole.split('.')[1]);
});

it('[H19] other credentials beside no token are not shared as anonymous', async () => {
  for (const headers of [{ cookie: 'a=1' }, { 'x-api-key': 'a' }]) {
    expect((await gateway.post('/none', 'k', headers)).status).toBe(400);
  }
  expect(upstream.count('/none')).toBe(0);
  expect((await gateway.post('/none', 'k')).status).toBe(201);
});

it('[H19] algorithms can be narrowed', async () => {
  const file = join(folder.path, 'keys.json');
  const narrow = await gateways.start(['--upstream', upstreamUrl, '--jwt-algorithms', 'ES256'], {
    ONCEWARD_SCOPE_FROM: 'jwt:sub',
    ONCEWARD_JWKS: file,
  });
  expect((await narrow.post('/narrow', 'k', bearer(await signer.sign(good)))).status).toBe(401);
  expect((await narrow.post('/narrow', 'k', bearer(await elliptic.sign(good)))).status).toBe(201);
});

it('[H19] new keys of the issuer are found, and unknown ones do not flood it', async () => {
  const issuer = new KeySetServer();
  issuer.keys = [signer.jwk];
  const url = await issuer.listen();
  const rotating = await gateways.start(['--upstream', upstreamUrl], {
    ONCEWARD_SCOPE_FROM: 'jwt:sub',
    ONCEWARD_JWKS: `${url}/keys?v=1`,
  });
  const ask = async (token: string) => rotating.post('/rotation', 'k', bearer(token));
  const first = await runOf(await ask(await signer.sign(good)));
  const strangers = await Promise.all(
    Array.from({ length: 20 }, async (_, index) =>
      (await newSigner(`x-${index}`, 'ES256')).sign(good),
    ),
  );
  const began = performance.now();
  for (const token of strangers) expect((await ask(token)).status).toBe(401);
  const seconds = (performance.now() - began) / 1_000;
  expect(issuer.asked).toBeLessThanOrEqual(3 + seconds / 5);

  const next = await newSigner('rsa-2');
  issuer.keys = [next.jwk];
  const token = await next.sign(good);
  let replay = await ask(token);
  for (let tries = 0; tries < 100 && replay.status === 401; tries += 1) {
    await sleep(200);
    replay = await ask(token);
  }
  expect([replay.status, await runOf(replay)]).toEqual([201, first]);
  expect((await ask(await signer.sign(good))).status).toBe(401);
  await issuer.close();
});

it('[H19] while the keys cannot be had nothing runs, and afterwards it goes on by itself', async () => {
  const gone = new KeySetServer();
  const url = await gone.listen();
  await gone.close();
  const waiting = await gateways.start(['--upstream', upstreamUrl], {
    ONCEWARD_SCOPE_FROM: 'jwt:sub',
    ONCEWARD_JWKS: url,
  });
  const headers = bearer(await signer.sign(good));
  const ask = () => waiting.post('/outage', 'k', headers);
  const expectOutage = async () => {
    const refused = await ask();
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toBe('1');
    expect(await refused.json()).toMatchObject({
      type: expect.stringMatching(/\/identity-unavailable$/),
      retry: 'same_key',
      happened: 'no',
    });
  };
  await expectOutage();
  const issuer = new KeySetServer();
  issuer.status = 500;
  await issuer.listen(Number(new URL(url).port));
  await expectOutage();
  issuer.status = 200;
  issuer.keys = [signer.jwk];
  let answer = await ask();
  for (let tries = 0; tries < 100 && answer.status === 503; tries += 1) {
    await sleep(100);
    answer = await ask();
  }
  expect(answer.status).toBe(201);
  expect(upstream.count('/outage')).toBe(1);
  await issuer.close();
});
