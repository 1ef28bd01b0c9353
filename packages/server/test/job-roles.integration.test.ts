import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type PostgresServer,
  type RedisServer,
  startPostgres,
  startRedis,
} from '../../../scripts/services/index.ts';
import { getJson, jobIs, newKey, type ShownJob, submitJob, until } from './job-client.ts';
import { startServer } from './running-program.ts';

const ECHO = { type: 'echo', payload: { n: 1 } };
const SECRET = { ONCEWARD_CLUSTER_SECRET: 'a-secret-of-the-tests' };

type Server = Awaited<ReturnType<typeof startServer>>;

function startManager(store: 'postgres' | 'redis', storeUrl: string): Promise<Server> {
  return startServer({
    ...SECRET,
    ONCEWARD_ROLE: 'manager',
    ONCEWARD_STORE: store,
    ONCEWARD_STORE_URL: storeUrl,
    IDEMPOTENCY_PENDING_TTL_SECONDS: '3',
  });
}

function startGate(managers: readonly Server[]): Promise<Server> {
  return startServer({
    ...SECRET,
    ONCEWARD_ROLE: 'gate',
    ONCEWARD_MANAGERS: managers.map(({ url }) => url).join(','),
    IDEMPOTENCY_PENDING_TTL_SECONDS: '3',
  });
}

describe.each(['postgres', 'redis'] as const)('gates and managers on %s', (kind) => {
  let store: PostgresServer | RedisServer;
  let managers: Server[];
  let gates: Server[];

  beforeAll(async () => {
    store = kind === 'postgres' ? await startPostgres() : await startRedis();
    managers = await Promise.all([startManager(kind, store.url), startManager(kind, store.url)]);
    gates = await Promise.all([1, 2, 3].map(() => startGate(managers)));
  });
  afterAll(async () => {
    await Promise.all([...(gates ?? []), ...(managers ?? [])].map((one) => one.stop()));
    await store?.dispose();
  });

  it('[J2] [J6] make one job of 1,000 simultaneous retries at three gates, and all acks agree', async () => {
    const key = newKey();
    const acks = await Promise.all(
      Array.from({ length: 1_000 }, (_, i) => submitJob(gates[i % 3]!.url, key, ECHO)),
    );
    expect(new Set(acks.map(({ status }) => status))).toEqual(new Set([202]));
    expect(new Set(acks.map(({ body }) => body.job_id)).size).toBe(1);
    expect(acks.filter(({ body }) => body.was_duplicate === false)).toHaveLength(1);
    const job = await jobIs(gates[0]!.url, String(acks[0]!.body.job_id), 'succeeded');
    expect(job.attempts).toBe(1);
  });

  it('[J6] serve nothing but jobs at a gate, and no jobs to clients at a manager', async () => {
    expect((await getJson(`${gates[0]!.url}/demo/v1/effects`)).status).toBe(404);
    expect((await submitJob(managers[0]!.url, newKey(), ECHO)).status).toBe(404);
    const unsigned = await fetch(`${managers[0]!.url}/v1/jobs-manager/calls`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"call":"windows"}',
    });
    expect(unsigned.status).toBe(401);
  });

  it('[J6] refuse strangers at a manager before they have sent their body', async () => {
    const sent = request(`${managers[0]!.url}/v1/jobs-manager/submissions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-length': 50_000_000 },
    });
    sent.write('{"homes":null,');
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    expect(answer.statusCode).toBe(401);
    sent.on('error', () => {}).destroy();
  });

  it('[J6] keep the job when the gate that took it in dies, and when a manager does', async () => {
    const key = newKey();
    const dying = await startGate(managers);
    const first = await submitJob(dying.url, key, { type: 'sleep', payload: { ms: 1_500 } });
    await dying.program.stop('SIGKILL');
    const again = await submitJob(gates[1]!.url, key, { type: 'sleep', payload: { ms: 1_500 } });
    expect(again.body).toMatchObject({ job_id: first.body.job_id, was_duplicate: true });

    await managers[0]!.program.stop('SIGKILL');
    const third = await submitJob(gates[2]!.url, key, { type: 'sleep', payload: { ms: 1_500 } });
    expect(third.body).toMatchObject({ job_id: first.body.job_id, was_duplicate: true });
    // Whichever manager ran it: if that was the one that died, the other takes it over when its lease has lapsed.
    const job = await jobIs(gates[2]!.url, String(first.body.job_id), 'succeeded');
    expect(job.attempts).toBeLessThanOrEqual(2);
  });

  it('[J6] refuse with 503 while the store is down, and go on when it is back', async () => {
    const key = newKey();
    await store.kill();
    const refused = await submitJob(gates[0]!.url, key, ECHO);
    expect(refused).toMatchObject({ status: 503, body: { retry: 'same_key' } });
    expect(Number(refused.retryAfter)).toBeGreaterThanOrEqual(1);
    await store.start();
    const taken = await until(
      () => submitJob(gates[0]!.url, key, ECHO),
      ({ status }) => status === 202,
    );
    const same = await submitJob(gates[1]!.url, key, ECHO);
    expect(same.body.job_id).toBe(taken.body.job_id);
    const { body } = await getJson<{ jobs: ShownJob[] }>(`${gates[1]!.url}/jobs?limit=1000`);
    expect(body.jobs.filter((job) => job.job_id === taken.body.job_id)).toHaveLength(1);
  });
});
