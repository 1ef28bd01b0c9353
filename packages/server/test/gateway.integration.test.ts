import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  ADMIN,
  CREDENTIAL,
  RunningProgram,
  runCommand,
  temporaryFolder,
} from './running-program.ts';
import { UpstreamServer } from './upstream-server.ts';

const upstream = new UpstreamServer();
let upstreamUrl: string;
beforeAll(async () => {
  upstreamUrl = await upstream.listen();
});
afterAll(() => upstream.close());

interface Started {
  readonly program: RunningProgram;
  readonly url: string;
  readonly admin: string;
}

const started: Started[] = [];
const folders: { remove(): void }[] = [];

async function startGateway(
  args: readonly string[] = ['--upstream', upstreamUrl],
  env: Record<string, string> = {},
): Promise<Started> {
  const folder = temporaryFolder();
  folders.push(folder);
  const program = new RunningProgram(['gateway', ...args], {
    PORT: '0',
    ONCEWARD_ADMIN_PORT: '0',
    ONCEWARD_DATA: folder.path,
    ONCEWARD_LOG_LEVEL: 'warn',
    ...CREDENTIAL,
    ...env,
  });
  const url = await program.ready();
  const [, admin = ''] = await program.printed(/^onceward admin is on (\S+)$/m);
  const entry = { program, url, admin };
  started.push(entry);
  return entry;
}

let shared: Started;
beforeAll(async () => {
  shared = await startGateway();
});
afterAll(async () => {
  await Promise.all(started.map(({ program }) => program.stop()));
  for (const folder of folders) folder.remove();
});
afterEach(() => {
  for (const { program } of started) expect(program.stderr).not.toMatch(/"level":"fatal"/);
});

let keys = 0;
const newKey = () => `gw-${(keys += 1)}`;

function post(path: string, key: string | null, init: RequestInit = {}, gateway = shared) {
  const headers = new Headers(init.headers);
  if (key !== null) headers.set('idempotency-key', key);
  return fetch(gateway.url + path, { method: 'POST', body: '{"a":1}', ...init, headers });
}

describe('[H15] the gateway', () => {
  it('makes an API idempotent that knows nothing of keys', async () => {
    const key = newKey();
    const first = await post('/orders', key);
    expect(first.status).toBe(201);
    expect(first.headers.get('idempotency-replayed')).toBe('false');
    const body = await first.json();
    const second = await post('/orders', key);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    expect(second.headers.get('x-upstream')).toBe('yes');
    expect(second.headers.get('set-cookie')).toBeNull();
    expect(await second.json()).toEqual(body);
    expect(upstream.count('/orders')).toBe(1);
  });

  it('sends one of many that arrive at once', async () => {
    const key = newKey();
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => post('/storm?delay=300', key)),
    );
    const bodies = await Promise.all(answers.map((answer) => answer.text()));
    expect(new Set(bodies).size).toBe(1);
    expect(upstream.count('/storm')).toBe(1);
  });

  it('refuses another body under the same key, and bad keys, before anything is sent', async () => {
    const key = newKey();
    await post('/other', key);
    const mismatch = await post('/other', key, { body: '{"a":2}' });
    expect(mismatch.status).toBe(422);
    const bad = await post('/other', 'no spaces please');
    expect(bad.status).toBe(400);
    expect(bad.headers.get('content-type')).toBe('application/problem+json');
    expect(upstream.count('/other')).toBe(1);
  });

  it('keeps callers apart by their credentials', async () => {
    const key = newKey();
    const call = (token: string) => post('/mine', key, { headers: { authorization: token } });
    const ann = await (await call('Bearer ann')).json();
    const bob = await (await call('Bearer bob')).json();
    expect(bob).not.toEqual(ann);
    expect(await (await call('Bearer ann')).json()).toEqual(ann);
    expect(upstream.count('/mine')).toBe(2);
  });

  it('lets requests through untouched that bring no key or need none', async () => {
    const bare = await post('/free', null);
    expect(bare.headers.get('idempotency-replayed')).toBeNull();
    expect(bare.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
    await post('/free', null);
    expect(upstream.count('/free')).toBe(2);
    const headers = { 'idempotency-key': newKey() };
    await fetch(`${shared.url}/free?get`, { headers });
    await fetch(`${shared.url}/free?get`, { headers });
    expect(upstream.count('/free?get')).toBe(2);
  });

  it('removes hop-by-hop headers in both directions, and says where a request came from', async () => {
    for (const key of [null, newKey()]) {
      const raw = await rawRequest(shared.url, [
        'POST /hops HTTP/1.1',
        'Host: shop.example',
        'Connection: close, X-Secret-Hop',
        'X-Secret-Hop: 1',
        'TE: trailers',
        'Proxy-Connection: keep-alive',
        'X-Forwarded-For: 192.0.2.7',
        'X-Kept: yes',
        ...(key === null ? [] : [`Idempotency-Key: ${key}`]),
        'Content-Length: 2',
        '',
        '{}',
      ]);
      const { headers } = upstream.last();
      expect(headers['x-kept']).toBe('yes');
      for (const name of ['x-secret-hop', 'te', 'proxy-connection']) {
        expect(headers[name]).toBeUndefined();
      }
      expect(headers['x-forwarded-for']).toBe('192.0.2.7, 127.0.0.1');
      expect(headers['x-forwarded-host']).toBe('shop.example');
      expect(headers['x-forwarded-proto']).toBe('http');
      expect(headers['content-length']).toBe('2');
      expect(raw).not.toMatch(/x-hop/i);
      expect(raw).toMatch(/x-upstream: yes/i);
    }
  });

  it('keeps answers of no declared length', async () => {
    const key = newKey();
    const first = await (await post('/chunked', key)).text();
    const second = await post('/chunked', key);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    expect(await second.text()).toBe(first);
  });

  it('passes server-sent events on as they come, and does not keep them', async () => {
    const key = newKey();
    const response = await post('/events', key);
    const reader = response.body!.getReader();
    const first = Buffer.from((await reader.read()).value ?? []).toString();
    expect(first).toBe('data: 1\n\n');
    for (let done = false; !done; ) ({ done } = await reader.read());
    const retry = await post('/events', key);
    expect(retry.status).toBe(409);
    expect(await retry.json()).toMatchObject({ type: expect.stringMatching(/not-retained$/) });
    expect(upstream.count('/events')).toBe(1);
  });

  it('passes on an answer that is too large to keep, and answers a retry so', async () => {
    const key = newKey();
    const first = Buffer.from(await (await post('/large', key)).arrayBuffer());
    expect(first.length).toBe(3_000_000);
    expect([first[0], first[2_999_999]]).toEqual([0, 29]);
    const retry = await post('/large', key);
    expect(retry.status).toBe(409);
    expect(await retry.json()).toMatchObject({ original_status: 200 });
    expect(upstream.count('/large')).toBe(1);
  });

  it('releases what failed, so that a retry is sent', async () => {
    const key = newKey();
    expect((await post('/failing', key)).status).toBe(500);
    expect((await post('/failing', key)).status).toBe(500);
    expect(upstream.count('/failing')).toBe(2);
  });

  it('goes on when the client has left, and gives the answer to its retry', async () => {
    const key = newKey();
    const abort = new AbortController();
    const lost = post('/slow?delay=500', key, { signal: abort.signal }).catch(() => 'aborted');
    await sleep(200);
    abort.abort();
    expect(await lost).toBe('aborted');
    const retry = await post('/slow?delay=500', key);
    expect(retry.status).toBe(201);
    expect(retry.headers.get('idempotency-replayed')).toBe('true');
    expect(upstream.count('/slow')).toBe(1);
  });

  it('refuses a body over the limit without sending any of it', async () => {
    const body = Buffer.alloc(1_048_577);
    const declared = await post('/upload', newKey(), { body });
    expect(declared.status).toBe(413);
    expect(await declared.json()).toMatchObject({ type: expect.stringMatching(/too-large$/) });
    const stream = new Blob([body]).stream();
    const init = { body: stream, duplex: 'half' } as RequestInit;
    expect((await post('/upload', newKey(), init)).status).toBe(413);
    expect(upstream.count('/upload')).toBe(0);
    const bare = await post('/upload', null, { body });
    expect(await bare.json()).toMatchObject({ bytes: 1_048_577 });
  });

  it('carries an upgraded connection in both directions', async () => {
    const { hostname, port } = new URL(shared.url);
    const socket = connect(Number(port), hostname);
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.write(
      'GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nfirst ',
    );
    await until(() => text.includes('first'));
    socket.write('second');
    await until(() => text.includes('second'));
    socket.destroy();
    expect(text).toMatch(/^HTTP\/1\.1 101 /);
    expect(text).toMatch(/\r\n\r\nhello \/chat\nfirst second$/);
  });
});

describe('[H15] an upstream that fails', () => {
  it('and refuses the connection frees the key: nothing was sent', async () => {
    const gone = new UpstreamServer();
    const url = await gone.listen();
    await gone.close();
    const gateway = await startGateway(['--upstream', url]);
    const key = newKey();
    for (let attempt = 0; attempt < 2; attempt += 1) {
      const response = await post('/x', key, {}, gateway);
      expect(response.status).toBe(502);
      expect(await response.json()).toMatchObject({
        type: expect.stringMatching(/upstream-refused$/),
        retry: 'same_key',
        happened: 'no',
      });
    }
    const bare = await post('/x', null, {}, gateway);
    expect(bare.status).toBe(502);
    const metrics = await (await fetch(`${gateway.admin}/metrics`)).text();
    expect(metrics).toContain('onceward_upstream_errors_total{kind="refused"} 3');
  });

  for (const [what, path, status] of [
    ['breaks off before its answer', '/reset', 502],
    ['stays silent', '/slow?delay=60000', 504],
    ['breaks off in the middle of its answer', '/half', 502],
  ] as const) {
    it(`and ${what} leaves the operation in doubt`, async () => {
      const gateway = await startGateway([
        '--upstream',
        upstreamUrl,
        '--upstream-timeout',
        path.startsWith('/slow') ? '0.3' : '10',
      ]);
      const before = upstream.count(path);
      const key = newKey();
      const first = await post(path, key, {}, gateway);
      expect(first.status).toBe(status);
      expect(await first.json()).toMatchObject({ retry: 'same_key', happened: 'unknown' });
      const retry = await post(path, key, {}, gateway);
      expect(retry.status).toBe(409);
      expect(await retry.json()).toMatchObject({ type: expect.stringMatching(/unknown$/) });
      expect(upstream.count(path)).toBe(before + 1);
      const listed = await fetch(`${gateway.admin}/admin/idempotency/recent?state=in_doubt`, {
        headers: ADMIN,
      });
      expect(await listed.json()).toMatchObject({ records: [{ key }] });
    });
  }

  it('leaves nothing in doubt where the route chose to release', async () => {
    const gateway = await startGateway(['--upstream', upstreamUrl], {
      ONCEWARD_UPSTREAM_UNKNOWN: 'release',
    });
    const before = upstream.count('/reset');
    const key = newKey();
    for (let attempt = 0; attempt < 2; attempt += 1) {
      const response = await post('/reset', key, {}, gateway);
      expect(response.status).toBe(502);
      expect(await response.json()).toMatchObject({ retry: 'same_key' });
    }
    expect(upstream.count('/reset')).toBe(before + 2);
  });
});

describe('[H15] the routes of the file', () => {
  it('change what happens to a path', async () => {
    const folder = temporaryFolder();
    folders.push(folder);
    const file = join(folder.path, 'routes.json');
    const routes = [
      { path: '/pay/*', IDEMPOTENCY_REQUIRE_KEY: true },
      { path: '/sync/:id', IDEMPOTENCY_PROFILE: 'sync' },
      { path: '/open/*', IDEMPOTENCY_MODE: 'off' },
      { path: '/watch', IDEMPOTENCY_MODE: 'observe' },
    ];
    writeFileSync(file, JSON.stringify({ ONCEWARD_UPSTREAM: upstreamUrl, routes }));
    const gateway = await startGateway(['--config', file]);
    expect((await post('/pay/1', null, {}, gateway)).status).toBe(400);
    const bad = await post('/sync/7', 'no-uuid', {}, gateway);
    expect(await bad.json()).toMatchObject({ error: { code: 'IDEMPOTENCY_KEY_INVALID' } });
    const key = newKey();
    for (const path of ['/open/1', '/watch']) {
      const runs = await Promise.all([post(path, key, {}, gateway), post(path, key, {}, gateway)]);
      for (const run of runs) expect(run.headers.get('idempotency-replayed')).toBeNull();
      expect(upstream.count(path)).toBe(2);
    }
  });
});

describe('[H15] a gateway', () => {
  it('without an upstream does not start and names the setting', async () => {
    const { code, stderr } = await new RunningProgram(['gateway']).ended;
    expect(code).toBe(2);
    expect(stderr).toContain('ONCEWARD_UPSTREAM');
  });

  it('lets running requests finish when it is asked to stop', async () => {
    const gateway = await startGateway();
    const running = post('/last?delay=900', newKey(), {}, gateway);
    await sleep(300);
    const ended = gateway.program.stop();
    await sleep(200);
    expect((await fetch(`${gateway.admin}/readyz`)).status).toBe(503);
    expect((await running).status).toBe(201);
    expect(await ended).toMatchObject({ code: 0 });
  });

  it('[U3] gets no credential of a command that takes it for the server, and nor does the API', async () => {
    const before = upstream.seen.length;
    const env = { ONCEWARD_URL: shared.url, ...CREDENTIAL };
    const { code, stderr } = await runCommand(['ls'], env);
    expect(code).toBe(5);
    expect(stderr).toMatch(/^onceward: .*no credential was sent.*admin port/);
    const seen = upstream.seen.slice(before);
    expect(seen.map(({ url }) => url)).toEqual(['/healthz']);
    expect(seen[0]?.headers).not.toHaveProperty('x-api-secret');
  });

  it('[U3] takes its admin credential by flags, and opens the admin API to this machine alone', async () => {
    const flags = ['--api-key', 'ak_by-flag', '--api-secret', 'sk_by-flag', '--host', '0.0.0.0'];
    const gateway = await startGateway(['--upstream', upstreamUrl, ...flags]);
    expect(gateway.url).toMatch(/^http:\/\/0\.0\.0\.0:/);
    expect(gateway.admin).toMatch(/^http:\/\/127\.0\.0\.1:/);
    const ask = (headers: Record<string, string>) =>
      fetch(`${gateway.admin}/admin/idempotency/recent`, { headers });
    expect((await ask({ 'x-api-key': 'ak_by-flag', 'x-api-secret': 'sk_by-flag' })).status).toBe(
      200,
    );
    expect((await ask(ADMIN)).status).toBe(401);
  });

  it('names the setting of its admin port when that is taken', async () => {
    const { port } = new URL(shared.url);
    const env = { PORT: '0', ONCEWARD_ADMIN_PORT: port, ONCEWARD_LOG_LEVEL: 'silent' };
    const data = temporaryFolder();
    folders.push(data);
    const args = ['gateway', '--upstream', upstreamUrl, '--data', data.path];
    const { code, stderr } = await runCommand(args, { ...env, ...CREDENTIAL });
    expect([code, stderr]).toEqual([6, expect.stringContaining('--admin-port')]);
  });
});

async function rawRequest(url: string, lines: readonly string[]): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write(lines.join('\r\n'));
  let text = '';
  for await (const chunk of socket) text += chunk;
  return text;
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 400 && !condition(); tries += 1) await sleep(25);
  expect(condition()).toBe(true);
}
