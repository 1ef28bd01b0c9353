import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { getJson, jobIs, newKey, type ShownJob, submitJob } from './job-client.ts';
import { ADMIN, startServer } from './running-program.ts';

const ECHO = { type: 'echo', payload: { n: 1 } };
const MIB = 1_048_576;

describe('jobs over HTTP, for callers who mean no good', () => {
  let server: Awaited<ReturnType<typeof startServer>>;
  let url: string;

  beforeAll(async () => {
    server = await startServer({ IDEMPOTENCY_PENDING_WAIT_TIMEOUT: '1' });
    url = server.url;
  });
  afterAll(() => server.stop());

  const post = (path: string, body: string, headers: Record<string, string> = {}) =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    });

  const cancel = (id: string, headers: Record<string, string> = {}) =>
    fetch(`${url}/jobs/${id}/cancel`, { method: 'POST', headers });

  const countJobs = async (tenant: string) => {
    const headers = { 'x-tenant': tenant };
    const found = await getJson<{ jobs: ShownJob[] }>(`${url}/jobs?limit=1000`, headers);
    return found.body.jobs.length;
  };

  it.each([
    ['no nonce', 'host:1'],
    ['no client', ':1:a1b2c3d4e5f60718'],
    ['an empty sequence', 'host::a1b2c3d4e5f60718'],
    ['a negative sequence', 'host:-1:a1b2c3d4e5f60718'],
    ['a sequence with leading zeros', 'host:01:a1b2c3d4e5f60718'],
    ['a sequence beyond 64 bits', 'host:18446744073709551616:a1b2c3d4e5f60718'],
    ['a sequence in exponents', 'host:1e3:a1b2c3d4e5f60718'],
    ['a short nonce', 'host:1:a1b2'],
    ['a nonce that is no hex', 'host:1:g1b2c3d4e5f60718'],
    ['a client of 201 characters', `${'c'.repeat(201)}:1:a1b2c3d4e5f60718`],
    ['spaces within', 'a host:1:a1b2c3d4e5f60718'],
    ['ten thousand colons', ':'.repeat(10_000)],
  ])(
    '[J1] [H2] refuses a key with %s, in the header and in the body, and stores nothing',
    async (_, key) => {
      const headers = { 'x-tenant': 'malformed' };
      const inHeader = await submitJob(url, key, ECHO, headers);
      const inBody = await submitJob(url, null, { ...ECHO, idempotency_key: key }, headers);
      for (const answer of [inHeader, inBody]) {
        expect(answer).toMatchObject({ status: 400, body: { retry: 'new_key' } });
        expect(answer.body.type).toMatch(/key-invalid$/);
      }
      expect(await countJobs('malformed')).toBe(0);
    },
  );

  it('[J1] refuses a key in the body that is no text, none at all, and two in the header', async () => {
    for (const idempotency_key of [1, null, ['a'], {}]) {
      const answer = await submitJob(url, null, { ...ECHO, idempotency_key });
      expect(answer.status).toBe(400);
    }
    const empty = await submitJob(url, null, { ...ECHO, idempotency_key: '' });
    expect(empty.status).toBe(400);
    expect((await submitJob(url, null, ECHO)).body.type).toMatch(/key-missing$/);
    const two = await submitJob(url, `${newKey()}, ${newKey()}`, ECHO);
    expect(two.status).toBe(400);
  });

  it('[J1] takes clients whose ids hold colons, the longest sequence, and either spelling of the nonce', async () => {
    const key = '[::1]:8080:client:18446744073709551615:A1B2C3D4E5F60718';
    const first = await submitJob(url, key, ECHO);
    const again = await submitJob(url, key.toLowerCase(), ECHO);
    expect(again.body).toMatchObject({ job_id: first.body.job_id, was_duplicate: true });
  });

  it.each([
    ['no JSON', '{"type":'],
    ['nothing', ''],
    ['null', 'null'],
    ['a list', '[]'],
    ['no type', '{"payload":1}'],
    ['a type that is a number', '{"type":1}'],
    ['an empty type', '{"type":""}'],
    ['a type of 129 characters', JSON.stringify({ type: 'x'.repeat(129) })],
    ['a type with U+0000', '{"type":"echo\\u0000"}'],
    ['a type that is half a surrogate pair', '{"type":"\\ud800"}'],
    ['a prototype', '{"type":"echo","__proto__":{"x":1}}'],
  ])('[J4] refuses a body of %s with a 4xx that says why, and stores nothing', async (_, body) => {
    const tenant = { 'x-tenant': 'bodies' };
    const response = await post('/jobs', body, { ...tenant, 'idempotency-key': newKey() });
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(response.status).toBeLessThan(500);
    expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/);
    expect(await countJobs('bodies')).toBe(0);
  });

  it('[J4] rejects types that are names of an object, and keeps the rejection', async () => {
    for (const type of ['constructor', '__proto__', 'toString', 'Echo', 'echo ', '🙂']) {
      const key = newKey();
      const first = await submitJob(url, key, { type, payload: null });
      expect(first).toMatchObject({ status: 422, body: { status: 'rejected', job_id: null } });
      const again = await submitJob(url, key, { type, payload: null });
      expect(again).toMatchObject({ status: 422, body: { was_duplicate: true } });
    }
  });

  it('[J4] runs a payload of just under the limit, and refuses a longer one under the same key each time', async () => {
    const fits = { type: 'echo', payload: 'x'.repeat(MIB - 1_000) };
    const answer = await submitJob(url, newKey(), fits);
    expect(answer.status).toBe(202);
    await jobIs(url, String(answer.body.job_id), 'succeeded');

    const key = newKey();
    for (const length of [1.1 * MIB, 8 * MIB]) {
      const body = JSON.stringify({ type: 'echo', payload: 'x'.repeat(length) });
      const refused = await post('/jobs', body, { 'idempotency-key': key }).catch(() => null);
      // A server may close the connection upon a caller who goes on sending.
      if (refused !== null) expect([413, 422]).toContain(refused.status);
    }
    expect((await submitJob(url, key, ECHO)).status).toBeLessThan(500);
  });

  it('[J4] survives payloads nested a hundred thousand deep', async () => {
    const deep = `{"type":"echo","payload":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    const response = await post('/jobs', deep, { 'idempotency-key': newKey() });
    expect(response.status).toBeLessThan(500);
    expect((await submitJob(url, newKey(), ECHO)).status).toBe(202);
  });

  it('[J8] lets one of many who cancel at once win, and the job never both ends and is cancelled', async () => {
    for (let round = 0; round < 20; round += 1) {
      const { body } = await submitJob(url, newKey(), { type: 'sleep', payload: { ms: round } });
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => cancel(String(body.job_id))),
      );
      for (const { status } of answers) expect([200, 409]).toContain(status);
      const job = await ended(String(body.job_id));
      const isTold = answers.some(({ status }) => status === 200);
      expect(['cancelled', 'succeeded']).toContain(job.state);
      if (!isTold) expect(job.state).toBe('succeeded');
    }
  });

  it('[J8] answers a cancel of what is no job of this tenant with 404, whatever it is called', async () => {
    const { body } = await submitJob(url, newKey(), { type: 'sleep', payload: { ms: 60_000 } });
    const other = await cancel(String(body.job_id), { 'x-tenant': 'other' });
    expect(other.status).toBe(404);
    for (const id of ['nothing', '%00', '..%2f..', 'x'.repeat(128), '%ED%A0%80']) {
      const { status } = await cancel(id);
      expect([400, 404]).toContain(status);
      const look = await fetch(`${url}/jobs/${id}`);
      expect([400, 404]).toContain(look.status);
    }
    expect((await cancel(String(body.job_id))).status).toBe(200);
    expect((await ended(String(body.job_id))).state).toBe('cancelled');
  });

  it('[J4] refuses queries that ask for what there is not', async () => {
    for (const query of ['limit=0', 'limit=-1', 'limit=1e9', 'limit=x', 'status=lost', 'a=b']) {
      expect((await fetch(`${url}/jobs?${query}`)).status).toBe(400);
    }
    const { body } = await getJson<{ detail: string }>(`${url}/jobs?status=lost`);
    expect(body.detail).toMatch(/status: .*queued.*in_doubt/);
  });

  it('[J4] refuses tenants that could be taken for others, and callers who speak for someone else', async () => {
    for (const tenant of ['a b', 'a:b', 'a/b', 'x'.repeat(65)]) {
      const answer = await submitJob(url, newKey(), ECHO, { 'x-tenant': tenant });
      expect(answer.status).toBe(400);
    }
    const forwarded = await submitJob(url, newKey(), ECHO, { 'x-forwarded-for': '10.0.0.1' });
    expect(forwarded.status).toBe(401);
    const wrong = { 'x-api-key': ADMIN['x-api-key'], 'x-api-secret': 'sk_not-this-one' };
    expect((await submitJob(url, newKey(), ECHO, wrong)).status).toBe(401);
  });

  async function ended(id: string): Promise<ShownJob> {
    for (let tries = 0; tries < 200; tries += 1) {
      const { body: job } = await getJson<ShownJob>(`${url}/jobs/${id}`);
      if (job.state !== 'queued' && job.state !== 'running') return job;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`job ${id} did not come to an end`);
  }
});
