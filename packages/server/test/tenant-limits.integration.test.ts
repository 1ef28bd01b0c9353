import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { getJson, newKey, type ShownJob, submitJob, until } from './job-client.ts';
import { ADMIN, postJson, runCommand, startServer, temporaryFolder } from './running-program.ts';
import { scrape } from './scrape.ts';

type Server = Awaited<ReturnType<typeof startServer>>;
type Headers = Readonly<Record<string, string>>;

async function makeClient(url: string, tenant: string): Promise<Headers> {
  const response = await postJson(`${url}/credentials`, { role: 'client', tenant }, ADMIN);
  const { api_key, api_secret } = (await response.json()) as Record<string, string>;
  return { 'x-api-key': api_key ?? '', 'x-api-secret': api_secret ?? '' };
}

const jobState = async (url: string, id: string, headers: Headers) =>
  (await getJson<ShownJob>(`${url}/jobs/${id}`, headers)).body.state;

describe('job slots', () => {
  it('[J2] [E9] long jobs of one tenant keep those of no other from running', async () => {
    const server = await startServer({ ONCEWARD_DRAIN_SECONDS: '0' });
    const { url } = server;
    const hog = { 'x-tenant': 'hog' };
    const long = { type: 'sleep', payload: { ms: 600_000 } };
    const ids = await Promise.all(
      Array.from(
        { length: 300 },
        async () => (await submitJob(url, newKey(), long, hog)).body.job_id,
      ),
    );
    await until(
      () => jobState(url, String(ids[0]), hog),
      (state) => state === 'running',
    );
    for (const tenant of ['b', 'c', 'd', 'e']) {
      const headers = { 'x-tenant': tenant };
      const { body } = await submitJob(url, newKey(), { type: 'echo', payload: 1 }, headers);
      await until(
        () => jobState(url, String(body.job_id), headers),
        (state) => state === 'succeeded',
      );
    }
    await server.stop();
  });
});

describe('open records', () => {
  let server: Server;
  let url: string;
  let shop: Headers;
  let bank: Headers;
  const folder = temporaryFolder();
  beforeAll(async () => {
    server = await startServer({
      ONCEWARD_DATA: folder.path,
      ONCEWARD_MAX_OPEN_PER_SCOPE: '20',
      ONCEWARD_MAX_OPEN_PER_TENANT: '50',
      ONCEWARD_MAX_JOBS_PER_TENANT: '30',
      IDEMPOTENCY_CLEANUP_INTERVAL_SECONDS: '0.2',
      ONCEWARD_DRAIN_SECONDS: '0',
      ONCEWARD_JOB_CONCURRENCY: '2',
    });
    url = server.url;
    shop = await makeClient(url, 'shop');
    bank = await makeClient(url, 'bank');
  });
  afterAll(async () => {
    await server.stop();
    folder.remove();
  });

  const reserve = async (headers: Headers, scope: string, key: string, leaseMs = 60_000) => {
    const body = { scope, key, fingerprint: 'f', lease_ms: leaseMs, wait_ms: 0 };
    const response = await postJson(`${url}/v1/operations/reserve`, body, headers);
    return {
      status: response.status,
      retryAfter: response.headers.get('retry-after'),
      body: (await response.json()) as Record<string, unknown> & { fence: number },
    };
  };

  it('[H16] [E9] a quota holds for many that come at once', async () => {
    const crowd = await makeClient(url, 'crowd');
    const all = await Promise.all(
      Array.from({ length: 100 }, (_, i) => reserve(crowd, 'at-once', `k${i}`)),
    );
    expect(all.filter(({ status }) => status === 200)).toHaveLength(20);
    const jobs = await Promise.all(
      Array.from({ length: 100 }, () =>
        submitJob(url, newKey(), { type: 'sleep', payload: { ms: 600_000 } }, crowd),
      ),
    );
    expect(jobs.filter(({ status }) => status === 202).length).toBeLessThanOrEqual(30);
  });

  it('[H16] [E9] a scope takes no more than its quota, and 429 over-quota says that nothing happened', async () => {
    const made = [];
    for (let i = 0; i < 20; i += 1) made.push(await reserve(shop, 'orders', `k${i}`));
    expect(made.map(({ status }) => status)).toEqual(made.map(() => 200));
    const over = await reserve(shop, 'orders', 'one-more');
    expect(over.status).toBe(429);
    expect(Number(over.retryAfter)).toBeGreaterThan(0);
    expect(over.body).toMatchObject({
      type: expect.stringMatching(/over-quota$/),
      retry: 'same_key',
      happened: 'no',
      detail: expect.stringContaining('ONCEWARD_MAX_OPEN_PER_SCOPE'),
    });
    expect((await scrape(url)).get('onceward_over_quota_total')).toBeGreaterThan(0);

    // What is open already is still answered, other tenants and other scopes are not touched.
    expect((await reserve(shop, 'orders', 'k3')).body.decision).toBe('in_progress');
    expect((await reserve(bank, 'orders', 'k3')).body.decision).toBe('claimed');
    expect((await reserve(shop, 'refunds', 'k3')).body.decision).toBe('claimed');

    const { fence } = made[0]?.body ?? { fence: 0 };
    const commit = { scope: 'orders', key: 'k0', fence };
    expect((await postJson(`${url}/v1/operations/commit`, commit, shop)).status).toBe(200);
    expect((await reserve(shop, 'orders', 'one-more')).body.decision).toBe('claimed');
    expect((await reserve(shop, 'orders', 'k0')).body.decision).toBe('replay');
  });

  it('[H16] [E9] a tenant takes no more than its quota over all its scopes, in doubt or not', async () => {
    const statuses: number[] = [];
    for (let i = 0; i < 60; i += 1) {
      statuses.push((await reserve(bank, `scope-${i % 10}`, `d${i}`, 10)).status);
    }
    expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(50);
    expect(statuses.at(-1)).toBe(429);
    await until(
      async () => (await scrape(url)).get('onceward_in_doubt') ?? 0,
      (count) => count === 49,
    );
    const over = await reserve(bank, 'a-new-scope', 'k');
    expect(over.status).toBe(429);
    expect(over.body.detail).toContain('ONCEWARD_MAX_OPEN_PER_TENANT');
  });

  it('[H16] [U3] what is in doubt is resolved at once: counted first, then done, with its lines in the trail', async () => {
    const asked = { scope_prefix: 'bank/', as: 'void', reason: 'the bank was down' };
    const all = `${url}/admin/idempotency/resolve`;
    expect((await postJson(all, asked, bank)).status).toBe(403);
    expect((await postJson(all, { scope_prefix: 'bank/', as: 'void' }, ADMIN)).status).toBe(400);
    expect((await postJson(all, { as: 'void', reason: 'all' }, ADMIN)).status).toBe(400);

    const counted = await postJson(all, { ...asked, dry_run: true }, ADMIN);
    const { matched, resolved } = (await counted.json()) as Record<string, number>;
    expect(matched).toBe(49);
    expect(resolved).toBe(0);
    const young = await postJson(all, { ...asked, older_than_ms: 3_600_000, dry_run: true }, ADMIN);
    expect(await young.json()).toMatchObject({ matched: 0, complete: true });

    const one = { as: 'void', reason: 'r', scope: 'bank/scope-1', limit: 2 };
    const few = await postJson(all, one, ADMIN);
    expect(await few.json()).toMatchObject({ matched: 2, resolved: 2, complete: false });

    const env = {
      ONCEWARD_URL: url,
      ONCEWARD_API_KEY: ADMIN['x-api-key'],
      ONCEWARD_API_SECRET: ADMIN['x-api-secret'],
    };
    const flags = [
      'resolve',
      '--all',
      '--scope-prefix',
      'bank/',
      '--as',
      'void',
      '--reason',
      'bank down',
      '--json',
    ];
    const dry = await runCommand([...flags, '--dry-run'], env);
    expect(dry.code).toBe(0);
    expect(JSON.parse(dry.stdout)).toMatchObject({ resolved: 0, matched: (matched ?? 0) - 2 });
    const done = await runCommand(flags, env);
    expect(done.code).toBe(0);
    expect(JSON.parse(done.stdout)).toMatchObject({ resolved: (matched ?? 0) - 2, complete: true });
    expect(
      (await runCommand(['resolve', '--all', '--as', 'void', '--reason', 'r'], env)).code,
    ).toBe(2);
    expect((await runCommand(['resolve', '--as', 'void', '--reason', 'r'], env)).code).toBe(2);

    const trail = await getJson<{ lines: { action: string; scope: string }[] }>(
      `${url}/admin/audit?limit=1000`,
      ADMIN,
    );
    const lines = trail.body.lines.filter(
      ({ action, scope }) => action === 'resolve' && scope.startsWith('bank/'),
    );
    expect(lines).toHaveLength(matched ?? 0);
    expect((await reserve(bank, 'a-new-scope', 'k')).body.decision).toBe('claimed');
  });

  it('[J2] [E9] a tenant has no more jobs waiting than its quota, and its duplicates are answered', async () => {
    const headers = { 'x-tenant': 'busy' };
    const long = { type: 'sleep', payload: { ms: 600_000 } };
    const keys = Array.from({ length: 30 }, () => newKey());
    for (const key of keys) expect((await submitJob(url, key, long, headers)).status).toBe(202);
    const over = await submitJob(url, newKey(), long, headers);
    expect(over.status).toBe(429);
    expect(Number(over.retryAfter)).toBeGreaterThan(0);
    expect(over.body).toMatchObject({
      type: expect.stringMatching(/over-quota$/),
      retry: 'same_key',
      happened: 'no',
      detail: expect.stringContaining('ONCEWARD_MAX_JOBS_PER_TENANT'),
    });
    const again = await submitJob(url, keys[0] ?? '', long, headers);
    expect(again).toMatchObject({ status: 202, body: { was_duplicate: true } });
    expect((await submitJob(url, newKey(), long, { 'x-tenant': 'idle' })).status).toBe(202);
  });

  it('[E9] the demo has its quota too', async () => {
    const order = (key: string, query = '') =>
      postJson(
        `${url}/demo/v1/orders${query}`,
        { item: 'a', amount: 1 },
        { 'idempotency-key': key },
      );
    for (let i = 0; i < 20; i += 1) expect((await order(`c${i}`, '?crash=1')).status).toBe(409);
    const over = await order('one-more');
    expect(over.status).toBe(429);
    expect(await over.json()).toMatchObject({ happened: 'no', retry: 'same_key' });
    expect((await order('c1', '?crash=1')).status).toBe(409);
  });

  it('[E9] a quota is still full after a restart', async () => {
    await server.program.stop('SIGKILL');
    server = await startServer({
      ONCEWARD_MAX_OPEN_PER_SCOPE: '20',
      ONCEWARD_DATA: folder.path,
      ONCEWARD_DRAIN_SECONDS: '0',
    });
    url = server.url;
    const answer = await until(
      () => reserve(shop, 'orders', `after-${Math.random()}`),
      ({ status }) => status === 429,
    );
    expect(answer.body.happened).toBe('no');
  });
});
