import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newSigner } from './identity-servers.ts';
import { RunningGateways } from './running-gateways.ts';
import { runCommand, temporaryFolder } from './running-program.ts';
import { UpstreamServer } from './upstream-server.ts';

const upstream = new UpstreamServer();
const gateways = new RunningGateways();
const folder = temporaryFolder();
let upstreamUrl: string;
beforeAll(async () => {
  upstreamUrl = await upstream.listen();
});
afterAll(async () => {
  await gateways.stop();
  await upstream.close();
  folder.remove();
});

const start = (...args: string[]) => gateways.start(['--upstream', upstreamUrl, ...args]);
const runOf = async (response: Response) => (await response.json()).run as number;

let paths = 0;
const newPath = () => `/identity-${(paths += 1)}`;

describe('[H19] credentials of the client', () => {
  it('two users of a session cookie that nobody named are refused, with the name of the setting', async () => {
    const gateway = await start();
    const path = newPath();
    for (const session of ['s-7261', 's-9034']) {
      const refused = await gateway.post(path, 'k', { cookie: `session=${session}` });
      expect(refused.status).toBe(400);
      expect(refused.headers.get('content-type')).toBe('application/problem+json');
      const problem = await refused.json();
      expect(problem).toMatchObject({
        type: expect.stringMatching(/\/scope-unknown$/),
        detail: expect.stringContaining('ONCEWARD_SCOPE_FROM'),
        retry: 'never',
        happened: 'no',
      });
      expect(JSON.stringify(problem)).not.toContain(session);
    }
    expect(upstream.count(path)).toBe(0);
    // Without a key nothing is kept that somebody else could be given.
    expect((await gateway.post(path, null, { cookie: 'session=ann' })).status).toBe(201);
  });

  it('a cookie beside a header that is named does no harm', async () => {
    const gateway = await start();
    const path = newPath();
    const first = await gateway.post(path, 'k', { cookie: 'a=1', authorization: 'Bearer ann' });
    const second = await gateway.post(path, 'k', { cookie: 'a=2', authorization: 'Bearer ann' });
    expect(await runOf(second)).toBe(await runOf(first));
  });

  it('requests without any credential share the scope anonymous', async () => {
    const gateway = await start();
    const path = newPath();
    const first = await runOf(await gateway.post(path, 'k'));
    expect(await runOf(await gateway.post(path, 'k', { authorization: '' }))).toBe(first);
    expect(await runOf(await gateway.post(path, 'k', { 'x-api-key': 'a' }))).not.toBe(first);
  });

  it('cookie:NAME keeps sessions apart, whatever other cookies come along', async () => {
    const gateway = await start('--scope-from', 'cookie:session');
    const path = newPath();
    const ask = async (cookie: string) => runOf(await gateway.post(path, 'k', { cookie }));
    const ann = await ask('theme=dark; session=ann');
    const bob = await ask('session=bob');
    expect(bob).not.toBe(ann);
    expect(await ask('session=ann; theme=light')).toBe(ann);
    expect(await ask('session=ann; session=bob')).not.toBe(ann);
    for (const cookie of ['theme=dark', 'xsession=ann', 'session=']) {
      expect((await gateway.post(path, 'k', { cookie })).status).toBe(400);
    }
    const other = await gateway.post(path, 'k', { authorization: 'Bearer ann' });
    expect(await other.json()).toMatchObject({ type: expect.stringMatching(/scope-unknown$/) });
    expect(upstream.count(path)).toBe(3);
  });

  it('a header that a trusted proxy set outlives the credential behind it', async () => {
    const gateway = await start('--scope-from', 'header:X-User');
    const path = newPath();
    const ask = (headers: Record<string, string>) => gateway.post(path, 'k', headers);
    const first = await ask({ 'x-user': '7', authorization: 'Bearer old', cookie: 'sid=1' });
    const second = await ask({ 'x-user': '7', authorization: 'Bearer new', cookie: 'sid=2' });
    expect(await runOf(second)).toBe(await runOf(first));
    expect((await ask({ authorization: 'Bearer old' })).status).toBe(400);
    expect(upstream.count(path)).toBe(1);
  });

  it('the same value in a header and in a cookie makes two scopes, by the rules of the route', async () => {
    const file = join(folder.path, 'routes.json');
    const routes = [
      { path: '/by-cookie/:id', ONCEWARD_SCOPE_FROM: 'cookie:session' },
      { path: '/sync/:id', IDEMPOTENCY_PROFILE: 'sync' },
    ];
    writeFileSync(file, JSON.stringify({ ONCEWARD_SCOPE_FROM: 'header:session', routes }));
    const gateway = await start('--config', file);
    const headers = { session: 'ann', cookie: 'session=ann' };
    await gateway.post('/by-cookie/1', 'k1', headers);
    await gateway.post('/by-header/1', 'k2', headers);
    const [, admin = ''] = await gateway.program.printed(/^onceward admin is on (\S+)$/m);
    const listed = await fetch(`${admin}/admin/idempotency/recent`, {
      headers: { 'x-api-key': 'ak_tests', 'x-api-secret': 'sk_only-for-tests' },
    });
    const { records } = (await listed.json()) as { records: { scope: string }[] };
    const scopes = records.map(({ scope }) => scope.split('|')[0]);
    expect(new Set(scopes).size).toBe(2);
    for (const scope of scopes) expect(scope).toMatch(/^[0-9a-f]{32}$/);

    const key = '550e8400-e29b-41d4-a716-446655440000';
    const refused = await gateway.post('/sync/1', key, { cookie: 'session=ann' });
    expect(await refused.json()).toEqual({
      error: {
        code: 'SCOPE_UNKNOWN',
        message: expect.stringContaining('ONCEWARD_SCOPE_FROM'),
        retry: 'never',
        happened: 'no',
      },
    });
  });

  it('mode observe refuses nobody', async () => {
    const gateway = await gateways.start(['--upstream', upstreamUrl], {
      IDEMPOTENCY_MODE: 'observe',
    });
    const path = newPath();
    for (const user of ['ann', 'bob']) {
      const response = await gateway.post(path, 'k', { cookie: `session=${user}` });
      expect(response.status).toBe(201);
    }
    expect(upstream.count(path)).toBe(2);
  });
});

describe('[H19] a start with a setting that cannot work', () => {
  const stops = async (args: string[], words: RegExp) => {
    const data = join(folder.path, 'unused');
    const all = ['gateway', '--upstream', upstreamUrl, '--data', data, ...args];
    const { code, stderr } = await runCommand(all, { PORT: '0', ONCEWARD_ADMIN_PORT: '0' });
    expect([code, stderr]).toEqual([2, expect.stringMatching(words)]);
  };

  it('stops with a message that names it', async () => {
    const bad = join(folder.path, 'bad.json');
    writeFileSync(bad, '{"keys":7}');
    const good = join(folder.path, 'good.json');
    writeFileSync(good, JSON.stringify({ keys: [(await newSigner('one')).jwk] }));
    await stops(
      ['--scope-from', 'session'],
      /ONCEWARD_SCOPE_FROM is "session"; it must be header:/,
    );
    await stops(['--scope-from', 'jwt:sub'], /needs ONCEWARD_JWKS/);
    const jwt = ['--scope-from', 'jwt:sub', '--jwks'];
    await stops([...jwt, join(folder.path, 'absent')], /ONCEWARD_JWKS names \S+absent.*ENOENT/);
    await stops([...jwt, bad], /ONCEWARD_JWKS names \S+bad\.json.*no JSON Web Key Set/);
    await stops([...jwt, good, '--jwt-algorithms', 'HS256'], /ONCEWARD_JWT_ALGORITHMS is/);
    await stops(['--scope-from', 'forward-auth:ftp://a'], /ONCEWARD_SCOPE_FROM is/);
  });
});
