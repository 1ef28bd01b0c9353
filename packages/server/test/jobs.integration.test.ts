import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { getJson, jobIs, newKey, type ShownJob, submitJob, until } from './job-client.ts';
import {
  ADMIN,
  CREDENTIAL,
  RunningProgram,
  startServer,
  temporaryFolder,
} from './running-program.ts';

const ECHO = { type: 'echo', payload: { n: 1 } };

describe('jobs over HTTP', () => {
  let server: Awaited<ReturnType<typeof startServer>>;
  let url: string;

  beforeAll(async () => {
    server = await startServer({
      IDEMPOTENCY_PENDING_WAIT_TIMEOUT: '5',
      IDEMPOTENCY_REJECTED_TTL_SECONDS: '1',
    });
    url = server.url;
  });
  afterAll(() => server.stop());

  it('[J4] acknowledges a submission, and a duplicate with the same job', async () => {
    const key = newKey();
    const first = await submitJob(url, key, ECHO);
    expect(first).toMatchObject({
      status: 202,
      replayed: 'false',
      body: {
        status: 'committed',
        idempotency_key: key,
        was_duplicate: false,
        original_job_id: null,
      },
    });
    const { job_id } = first.body;
    expect(await submitJob(url, key, ECHO)).toMatchObject({
      status: 202,
      replayed: 'true',
      body: { job_id, status: 'committed', was_duplicate: true, original_job_id: job_id },
    });
    expect(await jobIs(url, String(job_id), 'succeeded')).toMatchObject({
      type: 'echo',
      status: 'committed',
      attempts: 1,
      result: { n: 1 },
    });
  });

  it('[J4] takes the key from the body, and refuses two that differ', async () => {
    const key = newKey();
    const first = await submitJob(url, null, { ...ECHO, idempotency_key: key });
    expect(first.body).toMatchObject({ was_duplicate: false, idempotency_key: key });
    const both = await submitJob(url, key, { ...ECHO, idempotency_key: key });
    expect(both.body).toMatchObject({ was_duplicate: true });
    const differ = await submitJob(url, newKey(), { ...ECHO, idempotency_key: key });
    expect(differ).toMatchObject({ status: 400, body: { retry: 'new_key' } });
    expect(differ.body.type).toMatch(/key-conflict$/);
  });

  it.each([
    [null, 'key-missing'],
    ['not-a-job-key', 'key-invalid'],
    ['host:1:not-hex', 'key-invalid'],
  ])('[J1] refuses the key %j with 400', async (key, name) => {
    const answer = await submitJob(url, key, ECHO);
    expect(answer.status).toBe(400);
    expect(answer.body.type).toMatch(new RegExp(`/${name}$`));
  });

  it('[J4] refuses another job under a used key with 422', async () => {
    const key = newKey();
    await submitJob(url, key, ECHO);
    const other = await submitJob(url, key, { type: 'echo', payload: { n: 2 } });
    expect(other.status).toBe(422);
    expect(other.body.type).toMatch(/payload-mismatch$/);
  });

  it('[J4] [J5] rejects what cannot be run with 422, again until the rejection has expired', async () => {
    const key = newKey();
    const bad = { type: 'sleep', payload: { ms: 'long' } };
    const first = await submitJob(url, key, bad);
    expect(first).toMatchObject({
      status: 422,
      body: { status: 'rejected', job_id: null, was_duplicate: false },
    });
    expect(first.body.reason).toContain('payload.ms');
    expect((await submitJob(url, key, bad)).body).toMatchObject({ was_duplicate: true });
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    expect((await submitJob(url, key, bad)).body).toMatchObject({ was_duplicate: false });
  });

  it('[J2] makes one job of 300 simultaneous retries', async () => {
    const key = newKey();
    const answers = await Promise.all(Array.from({ length: 300 }, () => submitJob(url, key, ECHO)));
    expect(new Set(answers.map(({ body }) => body.job_id)).size).toBe(1);
    expect(answers.filter(({ body }) => body.was_duplicate === false)).toHaveLength(1);
  });

  it('[J8] shows queued, running, failed and cancelled jobs by their state', async () => {
    const sleeping = await submitJob(url, newKey(), { type: 'sleep', payload: { ms: 60_000 } });
    const failing = await submitJob(url, newKey(), { type: 'fail', payload: { final: true } });
    const id = String(sleeping.body.job_id);
    await jobIs(url, id, 'running');
    const failed = await jobIs(url, String(failing.body.job_id), 'failed');
    expect(failed).toMatchObject({ attempts: 1, error: 'failed as asked' });
    const running = await getJson<{ jobs: ShownJob[] }>(`${url}/jobs?status=running`);
    expect(running.body.jobs.map((job) => job.job_id)).toEqual([id]);

    const cancel = () => fetch(`${url}/jobs/${id}/cancel`, { method: 'POST' });
    expect((await cancel()).status).toBe(200);
    await jobIs(url, id, 'cancelled');
    expect((await cancel()).status).toBe(409);
    expect((await fetch(`${url}/jobs/none/cancel`, { method: 'POST' })).status).toBe(404);
  });

  it('[J4] keeps tenants apart, by header on this machine and by credential', async () => {
    const key = newKey();
    const ours = await submitJob(url, key, ECHO, { 'x-tenant': 'ours' });
    const theirs = await submitJob(url, key, ECHO, { 'x-tenant': 'theirs' });
    expect(theirs.body).toMatchObject({ was_duplicate: false });
    expect(theirs.body.job_id).not.toBe(ours.body.job_id);
    const asked = `${url}/jobs/${ours.body.job_id}`;
    expect((await getJson(asked, { 'x-tenant': 'ours' })).status).toBe(200);
    expect((await getJson(asked, { 'x-tenant': 'theirs' })).status).toBe(404);
    expect((await getJson(asked, { ...ADMIN, 'x-tenant': 'ours' })).status).toBe(200);
    expect((await getJson(asked, { ...ADMIN, 'x-api-secret': 'sk_wrong' })).status).toBe(401);
    const forwarded = { 'x-forwarded-for': '203.0.113.9' };
    expect((await submitJob(url, newKey(), ECHO, forwarded)).status).toBe(401);
  });
});

describe('a server that is killed', () => {
  it('[J3] answers with the same job afterwards, and runs what it had acknowledged', async () => {
    const folder = temporaryFolder();
    const env = { ONCEWARD_DATA: folder.path, ONCEWARD_JOB_CONCURRENCY: '1' };
    const key = newKey();
    const first = await startServer(env);
    // One job holds the only place, so that the other is still queued when the power goes.
    const slow = await submitJob(first.url, newKey(), { type: 'sleep', payload: { ms: 300 } });
    const before = await submitJob(first.url, key, ECHO);
    await first.program.stop('SIGKILL');

    const second = await startServer(env);
    const after = await submitJob(second.url, key, ECHO);
    expect(after.body).toMatchObject({ job_id: before.body.job_id, was_duplicate: true });
    await jobIs(second.url, String(before.body.job_id), 'succeeded');
    const again = await jobIs(second.url, String(slow.body.job_id), 'succeeded');
    expect(again.attempts).toBe(2);
    await second.stop();
    folder.remove();
  });
});

describe('windows', () => {
  it('[J5] are set by their environment names: the key is free when its time is up', async () => {
    const server = await startServer({ IDEMPOTENCY_COMMITTED_TTL_SECONDS: '1' });
    const key = newKey();
    const first = await submitJob(server.url, key, ECHO);
    expect((await submitJob(server.url, key, ECHO)).body.was_duplicate).toBe(true);
    const later = await until(
      () => submitJob(server.url, key, ECHO),
      ({ body }) => body.was_duplicate === false,
    );
    expect(later.body.job_id).not.toBe(first.body.job_id);
    await server.stop();
  });

  it('[J5] of a gate that are longer than those of its manager keep it from starting', async () => {
    const secret = { ONCEWARD_CLUSTER_SECRET: 'a-secret-of-the-tests' };
    const manager = await startServer({ ...secret, ONCEWARD_ROLE: 'manager' });
    const folder = temporaryFolder();
    const gate = new RunningProgram(['serve', '--role', 'gate', '--manager', manager.url], {
      ...CREDENTIAL,
      ...secret,
      PORT: '0',
      ONCEWARD_DATA: folder.path,
      IDEMPOTENCY_COMMITTED_TTL_SECONDS: '301',
    });
    const { code, stderr } = await gate.ended;
    expect(code).not.toBe(0);
    expect(stderr).toContain('IDEMPOTENCY_COMMITTED_TTL_SECONDS');
    await manager.stop();
    folder.remove();
  });
});
