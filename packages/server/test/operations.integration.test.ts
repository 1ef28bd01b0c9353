import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN, postJson, startServer } from './running-program.ts';

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

let keys = 0;
const newKey = () => `op-${(keys += 1)}`;

async function call(verb: string, body: object, headers: Record<string, string> = ADMIN) {
  const response = await postJson(`${server.url}/v1/operations/${verb}`, body, headers);
  return { status: response.status, body: JSON.parse(await response.text()) };
}

function reserve(key: string, more: object = {}) {
  return call('reserve', { scope: 'jobs', key, fingerprint: 'f', wait_ms: 0, ...more });
}

const outcome = { content_type: 'text/plain', body_base64: Buffer.from('done').toString('base64') };

describe('[H16] the operations API', () => {
  it('claims, commits, and replays what was committed', async () => {
    const key = newKey();
    const claimed = await reserve(key);
    expect(claimed).toMatchObject({ status: 200, body: { decision: 'claimed', attempt: 1 } });
    const { fence, lease_until } = claimed.body;
    expect(typeof fence).toBe('number');
    expect(lease_until).toBeGreaterThan(Date.now());
    const committed = await call('commit', { scope: 'jobs', key, fence, outcome });
    expect(committed).toEqual({ status: 200, body: { state: 'committed' } });
    expect((await reserve(key)).body).toMatchObject({
      decision: 'replay',
      state: 'committed',
      outcome,
    });
  });

  it('says the same when a commit is sent twice', async () => {
    const key = newKey();
    const { fence } = (await reserve(key)).body;
    const body = { scope: 'jobs', key, fence, outcome };
    expect((await call('commit', body)).status).toBe(200);
    expect((await call('commit', body)).status).toBe(200);
    expect((await call('reject', body)).status).toBe(409);
  });

  it('rejects, and replays the rejection', async () => {
    const key = newKey();
    const { fence } = (await reserve(key)).body;
    await call('reject', { scope: 'jobs', key, fence, outcome });
    expect((await reserve(key)).body).toMatchObject({ decision: 'replay', state: 'rejected' });
  });

  it('reports what is running, and waits for it when asked to', async () => {
    const key = newKey();
    const { fence } = (await reserve(key)).body;
    expect((await reserve(key)).body.decision).toBe('in_progress');
    const waiting = reserve(key, { wait_ms: 20_000 });
    await call('commit', { scope: 'jobs', key, fence, outcome });
    expect((await waiting).body).toMatchObject({ decision: 'replay', outcome });
  });

  it('refuses the same key for another request', async () => {
    const key = newKey();
    await reserve(key);
    expect((await reserve(key, { fingerprint: 'other' })).body.decision).toBe('mismatch');
  });

  it('renews a lease and gives a claim back', async () => {
    const key = newKey();
    const { fence, lease_until } = (await reserve(key, { lease_ms: 5_000 })).body;
    const renewed = await call('renew', { scope: 'jobs', key, fence, lease_ms: 60_000 });
    expect(renewed.body.lease_until).toBeGreaterThan(lease_until);
    expect((await call('release', { scope: 'jobs', key, fence })).status).toBe(200);
    const again = (await reserve(key)).body;
    expect(again.decision).toBe('claimed');
    expect(again.fence).toBeGreaterThan(fence);
  });

  it('puts a lapsed claim in doubt, or lets it be taken over, as it was reserved', async () => {
    const doubtful = newKey();
    await reserve(doubtful, { lease_ms: 10 });
    const safe = newKey();
    const first = (await reserve(safe, { lease_ms: 10, on_lapse: 'take_over' })).body;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await reserve(doubtful)).body.decision).toBe('in_doubt');
    const second = (await reserve(safe, { on_lapse: 'take_over' })).body;
    expect(second).toMatchObject({ decision: 'claimed', attempt: 2 });
    const late = await call('commit', { scope: 'jobs', key: safe, fence: first.fence, outcome });
    expect(late.status).toBe(409);
    expect(late.body.type).toMatch(/fence-lost$/);
  });

  it('takes the late commit of the very attempt that is in doubt', async () => {
    const key = newKey();
    const { fence } = (await reserve(key, { lease_ms: 10 })).body;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await reserve(key)).body.decision).toBe('in_doubt');
    expect((await call('commit', { scope: 'jobs', key, fence, outcome })).status).toBe(200);
    expect((await reserve(key)).body.decision).toBe('replay');
  });

  it('shows an operation', async () => {
    const key = newKey();
    const url = `${server.url}/v1/operations/jobs/${key}`;
    expect((await fetch(url, { headers: ADMIN })).status).toBe(404);
    const { fence } = (await reserve(key)).body;
    const pending = await (await fetch(url, { headers: ADMIN })).json();
    expect(pending).toMatchObject({ state: 'pending', fence, outcome: null });
    await call('commit', { scope: 'jobs', key, fence, outcome });
    const settled = await (await fetch(url, { headers: ADMIN })).json();
    expect(settled).toMatchObject({ state: 'committed', fence, outcome });
  });

  it('keeps large outcomes as they were, and refuses those over the limit', async () => {
    const key = newKey();
    const { fence } = (await reserve(key)).body;
    const bytes = Buffer.alloc(600_000, 'abc');
    const large = { content_type: 'text/plain', body_base64: bytes.toString('base64') };
    expect((await call('commit', { scope: 'jobs', key, fence, outcome: large })).status).toBe(200);
    expect((await reserve(key)).body.outcome).toEqual(large);
    const over = Buffer.alloc(1_100_000).toString('base64');
    const refused = await call('commit', { ...large, scope: 'jobs', key, body_base64: over });
    expect([refused.status, refused.body.type]).toEqual([
      413,
      expect.stringMatching(/body-too-large$/),
    ]);
  });

  it('keeps tenants apart: another’s key looks absent', async () => {
    const tenants = await Promise.all(
      ['ann', 'bob'].map(async (tenant) => {
        const body = { role: 'client', tenant };
        const made = await postJson(`${server.url}/credentials`, body, ADMIN);
        const { api_key, api_secret } = (await made.json()) as Record<string, string>;
        return { 'x-api-key': api_key ?? '', 'x-api-secret': api_secret ?? '' };
      }),
    );
    const key = newKey();
    const body = { scope: 'jobs', key, fingerprint: 'f' };
    const [ann = {}, bob = {}] = tenants;
    const first = (await call('reserve', body, ann)).body;
    expect(first.decision).toBe('claimed');
    const url = `${server.url}/v1/operations/jobs/${key}`;
    expect((await fetch(url, { headers: bob })).status).toBe(404);
    expect((await call('reserve', body, bob)).body.decision).toBe('claimed');
    const commit = { scope: 'jobs', key, fence: first.fence, outcome };
    expect((await call('commit', commit, bob)).status).toBe(409);
    expect((await call('commit', commit, ann)).status).toBe(200);
  });

  it('lets one of many claim', async () => {
    const key = newKey();
    const answers = await Promise.all(Array.from({ length: 40 }, () => reserve(key)));
    const decisions = answers.map(({ body }) => body.decision);
    expect(decisions.filter((decision) => decision === 'claimed')).toHaveLength(1);
    expect(decisions.filter((decision) => decision === 'in_progress')).toHaveLength(39);
  });

  for (const [what, body] of [
    ['nothing', {}],
    ['an empty key', { scope: 's', key: '', fingerprint: 'f' }],
    ['a key with a NUL', { scope: 's', key: 'a\0b', fingerprint: 'f' }],
    ['a lone surrogate', { scope: 's\ud800', key: 'k', fingerprint: 'f' }],
    ['a scope that is too long', { scope: 's'.repeat(513), key: 'k', fingerprint: 'f' }],
    ['a lease of no time', { scope: 's', key: 'k', fingerprint: 'f', lease_ms: 0 }],
    ['a lease as text', { scope: 's', key: 'k', fingerprint: 'f', lease_ms: '10' }],
    ['an endless wait', { scope: 's', key: 'k', fingerprint: 'f', wait_ms: 1e12 }],
    ['an unknown field', { scope: 's', key: 'k', fingerprint: 'f', leaseMs: 10 }],
    ['a list', []],
  ] as const) {
    it(`refuses to reserve ${what}, and says what to change`, async () => {
      const refused = await call('reserve', body);
      expect(refused.status).toBe(400);
      expect(refused.body).toMatchObject({
        type: expect.stringMatching(/invalid-request$/),
        errors: [{ field: expect.any(String), message: expect.any(String) }, ...rest(refused)],
      });
    });
  }

  it('refuses a fence that is no number', async () => {
    const body = { scope: 's', key: 'k', fence: '1', outcome };
    expect((await call('commit', body)).status).toBe(400);
    expect((await call('commit', { ...body, fence: 0 })).status).toBe(400);
    expect((await call('commit', { ...body, fence: 2 ** 53 })).status).toBe(400);
  });
});

function rest(refused: { body: { errors: unknown[] } }): unknown[] {
  return refused.body.errors.slice(1);
}
