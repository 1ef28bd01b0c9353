import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN, postJson, startServer, temporaryFolder } from './running-program.ts';

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

const SCOPE = 'demo|POST /demo/v1/orders';

async function placeOrder(key: string, query = ''): Promise<Response> {
  const headers = { 'idempotency-key': key };
  return postJson(`${server.url}/demo/v1/orders${query}`, { item: 'w', amount: 1 }, headers);
}

function record(key: string, rest = '', scope = SCOPE): string {
  const path = `${encodeURIComponent(scope)}/${encodeURIComponent(key)}`;
  return `${server.url}/admin/idempotency/${path}${rest}`;
}

async function ask(url: string, init: RequestInit = {}) {
  const response = await fetch(url, { ...init, headers: { ...ADMIN, ...init.headers } });
  const text = await response.text();
  return { status: response.status, body: text === '' ? null : JSON.parse(text) };
}

const send = (url: string, body: unknown) =>
  ask(url, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  });

describe('[H16] the admin API', () => {
  it('lists the records that changed last, the latest first', async () => {
    for (const key of ['list-1', 'list-2', 'list-3']) await placeOrder(key);
    const { body } = await ask(`${server.url}/admin/idempotency/recent?limit=2&state=&scope=`);
    expect(body.records.map(({ key }: { key: string }) => key)).toEqual(['list-3', 'list-2']);
    expect(body.complete).toBe(true);
  });

  it('lists by state and by scope', async () => {
    await placeOrder('doubted', '?crash=1');
    const { body } = await ask(`${server.url}/admin/idempotency/recent?state=in_doubt`);
    expect(body.records.map(({ key }: { key: string }) => key)).toEqual(['doubted']);
    const other = await ask(`${server.url}/admin/idempotency/recent?scope=nobody`);
    expect(other.body.records).toEqual([]);
  });

  it('shows one record without its body', async () => {
    await placeOrder('shown');
    const { status, body } = await ask(record('shown'));
    expect(status).toBe(200);
    expect(body).toMatchObject({
      scope: SCOPE,
      key: 'shown',
      state: 'committed',
      attempt: 1,
      outcome: { size: expect.any(Number) },
    });
    expect(JSON.stringify(body)).not.toContain('body_base64');
    const refused = await ask(record('shown', '?body=1'));
    expect(refused.status).toBe(403);
    expect(refused.body.detail).toContain('ONCEWARD_ADMIN_BODIES');
  });

  it('shows bodies where that is allowed', async () => {
    const open = await startServer({ ONCEWARD_ADMIN_BODIES: 'true' });
    const order = { item: 'w', amount: 1 };
    await postJson(`${open.url}/demo/v1/orders`, order, { 'idempotency-key': 'k' });
    const path = `/admin/idempotency/${encodeURIComponent(SCOPE)}/k?body=1`;
    const { body } = await ask(open.url + path);
    expect(Buffer.from(body.outcome.body_base64, 'base64').toString()).toContain('order_id');
    await open.stop();
  });

  it('says 404 of a key that was never used', async () => {
    const { status, body } = await ask(record('never'));
    expect([status, body.type]).toEqual([404, expect.stringMatching(/not-found$/)]);
  });

  it('keeps an answer longer', async () => {
    await placeOrder('longer');
    const before = (await ask(record('longer'))).body.keep_until;
    const extended = await send(record('longer', '/extend'), { ttl_ms: 3_600_000 });
    expect(extended.status).toBe(200);
    expect(extended.body.keep_until).toBeGreaterThan(before + 3_000_000);
  });

  it('purges a record, after which its key runs again', async () => {
    const first = await (await placeOrder('purged')).json();
    expect((await ask(record('purged'), { method: 'DELETE' })).status).toBe(204);
    expect((await ask(record('purged'))).status).toBe(404);
    expect(await (await placeOrder('purged')).json()).not.toEqual(first);
  });

  it('resolves a doubt as void, after which its key runs again', async () => {
    await placeOrder('void', '?crash=1');
    const resolved = await send(record('void', '/resolve'), { as: 'void', reason: 'looked' });
    expect(resolved).toEqual({ status: 200, body: null });
    expect((await placeOrder('void')).status).toBe(201);
  });

  it('resolves a doubt as committed, after which nothing runs again', async () => {
    await placeOrder('happened', '?crash=1');
    const { body } = await send(record('happened', '/resolve'), {
      as: 'committed',
      reason: 'it is in the books',
    });
    expect(body).toMatchObject({
      state: 'committed',
      resolution: { by: ADMIN['x-api-key'], reason: 'it is in the books' },
    });
    const retry = await placeOrder('happened', '?crash=1');
    expect(retry.status).toBe(409);
    expect(await retry.json()).toMatchObject({ type: expect.stringMatching(/not-retained$/) });
  });

  it('refuses a verdict on what is not in doubt, and on what is not there', async () => {
    await placeOrder('certain');
    const verdict = { as: 'void', reason: 'r' };
    expect((await send(record('certain', '/resolve'), verdict)).status).toBe(409);
    expect((await send(record('nothing', '/resolve'), verdict)).status).toBe(404);
    expect((await send(record('nothing', '/extend'), { ttl_ms: 1 })).status).toBe(404);
    expect((await ask(record('nothing'), { method: 'DELETE' })).status).toBe(404);
  });

  it('has a line in the audit trail for every change, with who and why', async () => {
    await placeOrder('audited');
    await send(record('audited', '/extend'), { ttl_ms: 1_000, reason: 'first' });
    await ask(record('audited', '?reason=second'), { method: 'DELETE' });
    const { body } = await ask(`${server.url}/admin/audit?limit=2`);
    expect(body.lines).toMatchObject([
      { action: 'purge', key: 'audited', by: ADMIN['x-api-key'], reason: 'second' },
      { action: 'extend', key: 'audited', by: ADMIN['x-api-key'], reason: 'first' },
    ]);
    const file = readFileSync(join(server.data, 'audit.jsonl'), 'utf8');
    expect(file).toContain('"reason":"second"');
  });

  it('takes scopes and keys with slashes, percent signs and words in any script', async () => {
    const scope = 'a/b%2F|ключ 😀';
    const key = '../..?x#y';
    const body = { scope, key, fingerprint: 'f' };
    const reserved = await send(`${server.url}/v1/operations/reserve`, body);
    expect(reserved.body.decision).toBe('claimed');
    expect((await ask(record(key, '', scope))).body).toMatchObject({ scope, key });
  });

  it('answers read-only credentials, but lets them change nothing', async () => {
    const made = await send(`${server.url}/credentials`, { role: 'read_only' });
    expect(made.status).toBe(201);
    const headers = { 'x-api-key': made.body.api_key, 'x-api-secret': made.body.api_secret };
    await placeOrder('looked-at');
    expect((await fetch(record('looked-at'), { headers })).status).toBe(200);
    const purge = await fetch(record('looked-at'), { method: 'DELETE', headers });
    expect(purge.status).toBe(403);
    const reserve = await postJson(
      `${server.url}/v1/operations/reserve`,
      { scope: 's', key: 'k', fingerprint: 'f' },
      headers,
    );
    expect(reserve.status).toBe(403);
  });

  it('revokes a credential at once', async () => {
    const made = await send(`${server.url}/credentials`, { role: 'read_only' });
    const headers = { 'x-api-key': made.body.api_key, 'x-api-secret': made.body.api_secret };
    const url = `${server.url}/admin/stats`;
    expect((await fetch(url, { headers })).status).toBe(200);
    const path = `${server.url}/credentials/${made.body.api_key}`;
    expect((await ask(path, { method: 'DELETE' })).status).toBe(204);
    expect((await fetch(url, { headers })).status).toBe(401);
    const listed = await ask(`${server.url}/credentials`);
    expect(JSON.stringify(listed.body)).not.toContain(made.body.api_key);
  });

  for (const path of [
    '/admin/idempotency/recent',
    '/admin/idempotency/a/b',
    '/admin/audit',
    '/admin/events',
    '/admin/stats',
    '/credentials',
    '/v1/operations/a/b',
  ]) {
    it(`does not answer ${path} without a credential, or with a wrong one`, async () => {
      const none = await fetch(server.url + path);
      expect(none.status).toBe(401);
      const wrong = await fetch(server.url + path, {
        headers: { ...ADMIN, 'x-api-secret': 'sk_wrong' },
      });
      expect(wrong.status).toBe(401);
      expect(await wrong.json()).toMatchObject({ type: expect.stringMatching(/unauthorized$/) });
    });
  }
});

describe('[H16] the events of the admin API', () => {
  it('come as they happen', async () => {
    const abort = new AbortController();
    const response = await fetch(`${server.url}/admin/events`, {
      headers: ADMIN,
      signal: abort.signal,
    });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    const seen = (async () => {
      while (!text.includes('event: replayed')) {
        const { value, done } = await reader.read();
        if (done) return;
        text += value;
      }
    })();
    await placeOrder('watched');
    await placeOrder('watched');
    await seen;
    abort.abort();
    expect(text).toMatch(/event: claimed\ndata: .*"key":"watched"/);
    expect(text.indexOf('event: settled')).toBeLessThan(text.indexOf('event: replayed'));
  });
});

describe('[H16] the first start', () => {
  it('makes an admin credential, prints it once, and keeps no more than its hash', async () => {
    const folder = temporaryFolder();
    const env = { ONCEWARD_DATA: folder.path, ONCEWARD_API_KEY: '', ONCEWARD_API_SECRET: '' };
    const first = await startServer(env);
    const [, apiKey = ''] = await first.program.printed(/ONCEWARD_API_KEY=(\S+)/);
    const [, apiSecret = ''] = await first.program.printed(/ONCEWARD_API_SECRET=(\S+)/);
    expect([apiKey.slice(0, 3), apiSecret.slice(0, 3)]).toEqual(['ak_', 'sk_']);
    await first.stop();

    const second = await startServer(env);
    const headers = { 'x-api-key': apiKey, 'x-api-secret': apiSecret };
    expect((await fetch(`${second.url}/admin/stats`, { headers })).status).toBe(200);
    const { stdout, stderr } = await second.stop();
    expect(stdout).not.toContain('ONCEWARD_API_SECRET');
    const kept = readFileSync(join(folder.path, 'credentials.json'), 'utf8');
    expect(kept + stderr).not.toContain(apiSecret.slice(3));
    folder.remove();
  });
});
