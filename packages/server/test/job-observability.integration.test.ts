import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { jobIs, newKey, submitJob, until } from './job-client.ts';
import { startServer } from './running-program.ts';
import { scrape } from './scrape.ts';

type Server = Awaited<ReturnType<typeof startServer>>;

const ECHO = { type: 'echo', payload: { n: 1 } };
const SECRET = { ONCEWARD_CLUSTER_SECRET: 'a-secret-of-the-tests' };
const TALKATIVE = { ONCEWARD_LOG_LEVEL: 'debug' };

/** One server for everything, or a gate before a manager: to clients and to their metrics it is the same. */
const SHAPES: [string, () => Promise<Server[]>][] = [
  ['one server', async () => [await startServer(TALKATIVE)]],
  [
    'a gate and its manager',
    async () => {
      const manager = await startServer({ ...SECRET, ...TALKATIVE, ONCEWARD_ROLE: 'manager' });
      const role = { ONCEWARD_ROLE: 'gate', ONCEWARD_MANAGERS: manager.url };
      return [await startServer({ ...SECRET, ...TALKATIVE, ...role }), manager];
    },
  ],
];

describe.each(SHAPES)('%s', (_shape, start) => {
  let servers: Server[];
  let url: string;
  beforeAll(async () => {
    servers = await start();
    url = servers[0]!.url;
  });
  afterAll(async () => {
    for (const server of servers) await server.stop();
  });

  async function total(series: string): Promise<number> {
    const found = await Promise.all(servers.map((server) => scrape(server.url)));
    return found.reduce((sum, one) => sum + (one.get(`onceward_${series}`) ?? 0), 0);
  }

  /** How much each of these rose, over all processes. */
  async function risen(names: readonly string[], work: () => Promise<unknown>) {
    const before = await Promise.all(names.map(total));
    await work();
    const after = await Promise.all(names.map(total));
    return Object.fromEntries(names.map((name, at) => [name, after[at]! - before[at]!]));
  }

  const lines = () =>
    servers
      .flatMap(({ program }) => program.stderr.trim().split('\n'))
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);

  const ARRIVALS = [
    'misses_total',
    'replays_total',
    'conflicts_total',
    'settled_total{state="committed"}',
    'settled_total{state="rejected"}',
  ] as const;

  it('[J10] submissions, duplicates, mismatches and rejections are counted, and runs are not among them', async () => {
    const rise = await risen(
      [
        ...ARRIVALS,
        'job_runs_total{result="started"}',
        'job_runs_total{result="succeeded"}',
        'job_runs_total{result="failed"}',
      ],
      async () => {
        const key = newKey('counted');
        const { body } = await submitJob(url, key, ECHO);
        await jobIs(url, String(body.job_id), 'succeeded');
        for (let again = 0; again < 3; again += 1) await submitJob(url, key, ECHO);
        await submitJob(url, key, { type: 'echo', payload: 'other' });
        const bad = { type: 'sleep', payload: { ms: 'long' } };
        const rejected = newKey('counted');
        for (let again = 0; again < 2; again += 1) await submitJob(url, rejected, bad);
        const failing = await submitJob(url, newKey('counted'), {
          type: 'fail',
          payload: { final: true },
        });
        await jobIs(url, String(failing.body.job_id), 'failed');
      },
    );
    expect(rise).toEqual({
      misses_total: 3,
      replays_total: 4,
      conflicts_total: 1,
      'settled_total{state="committed"}': 2,
      'settled_total{state="rejected"}': 1,
      'job_runs_total{result="started"}': 2,
      'job_runs_total{result="succeeded"}': 1,
      'job_runs_total{result="failed"}': 1,
    });
  });

  it('[J10] duplicates that wait for the first are counted as waiting', async () => {
    const waited = 'concurrent_total{result="waited"}';
    const names = ['misses_total', waited, 'replays_total', 'wait_seconds_count'];
    const rise = await risen(names, () => {
      const key = newKey('storm');
      return Promise.all(Array.from({ length: 50 }, () => submitJob(url, key, ECHO)));
    });
    expect(rise.misses_total).toBe(1);
    expect(rise.replays_total).toBe(49);
    expect(rise[waited]).toBeGreaterThan(0);
    expect(rise.wait_seconds_count).toBe(rise[waited]);
  });

  it('[J10] the log has a line for each, with masked names, and lines of runs have names of their own', async () => {
    const key = newKey('logged-client-of-some-length');
    const tenant = { 'x-tenant': 'a-tenant-of-some-length' };
    const { body } = await submitJob(url, key, ECHO, tenant);
    await submitJob(url, key, ECHO, tenant);
    await submitJob(url, key, { type: 'echo', payload: 'other' }, tenant);
    const wanted = [
      'idempotency_cache_miss',
      'idempotency_cache_hit',
      'idempotency_key_mismatch',
      'job_run_cache_miss',
      'job_run_settled',
    ];
    const seen = await until(
      async () => new Set(lines().map(({ event }) => event)),
      (events) => wanted.every((name) => events.has(name)),
    );
    expect([...seen]).toEqual(expect.arrayContaining(wanted));
    const text = JSON.stringify(lines());
    expect(text).not.toContain(key);
    expect(text).not.toContain('a-tenant-of-some-length');
    expect(text).not.toContain(String(body.job_id));
  });

  it('[J10] a resubmission of a job that was cancelled is answered so, and whether it may have run', async () => {
    const long = { type: 'sleep', payload: { ms: 60_000 } };
    const running = newKey('cancelled');
    const { body } = await submitJob(url, running, long);
    const id = String(body.job_id);
    await jobIs(url, id, 'running');
    expect((await submitJob(url, running, long)).body.status).toBe('committed');
    await fetch(`${url}/jobs/${id}/cancel`, { method: 'POST' });
    await jobIs(url, id, 'cancelled');
    for (let again = 0; again < 2; again += 1) {
      expect(await submitJob(url, running, long)).toMatchObject({
        status: 409,
        replayed: 'true',
        body: { status: 'cancelled', job_id: id, was_duplicate: true, happened: 'unknown' },
      });
    }
  });
});

it('[J10] a job that was cancelled before it began did not happen, and a new key makes a new one', async () => {
  const server = await startServer({ ONCEWARD_JOB_CONCURRENCY: '1' });
  const long = { type: 'sleep', payload: { ms: 60_000 } };
  // Whatever the share of tenants, two long ones leave no place for a third.
  for (let busy = 0; busy < 2; busy += 1) await submitJob(server.url, newKey('busy'), long);
  const key = newKey('queued');
  const { body } = await submitJob(server.url, key, ECHO);
  expect((await submitJob(server.url, key, ECHO)).body.status).toBe('committed');
  await fetch(`${server.url}/jobs/${body.job_id}/cancel`, { method: 'POST' });
  await jobIs(server.url, String(body.job_id), 'cancelled');
  expect(await submitJob(server.url, key, ECHO)).toMatchObject({
    status: 409,
    body: { status: 'cancelled', job_id: body.job_id, retry: 'new_key', happened: 'no' },
  });
  const anew = await submitJob(server.url, newKey('queued'), ECHO);
  expect(anew).toMatchObject({ status: 202, body: { was_duplicate: false } });
  expect(anew.body.job_id).not.toBe(body.job_id);
  await server.stop();
});

it('[E16] a rejected submission says that nothing happened', async () => {
  const server = await startServer();
  const rejected = await submitJob(server.url, newKey(), { type: 'none' });
  expect(rejected).toMatchObject({
    status: 422,
    body: { status: 'rejected', retry: 'new_key', happened: 'no' },
  });
  await server.stop();
});
