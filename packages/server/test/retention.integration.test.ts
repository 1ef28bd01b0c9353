import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getJson, newKey, submitJob, until } from './job-client.ts';
import { type RunningGateway, startGateway } from './running-gateway.ts';
import { ADMIN, postJson, startServer } from './running-program.ts';
import { scrape } from './scrape.ts';
import { UpstreamServer } from './upstream-server.ts';

/** Answers are kept for this long, by the real clock. */
const WINDOW_SECONDS = 2;
const SETTINGS = {
  IDEMPOTENCY_COMMITTED_TTL_SECONDS: String(WINDOW_SECONDS),
  IDEMPOTENCY_REJECTED_TTL_SECONDS: '1',
};
const PASSED_MS = WINDOW_SECONDS * 1_000 + 1_100;

const upstream = new UpstreamServer();
let gateway: RunningGateway;
let server: Awaited<ReturnType<typeof startServer>>;

beforeAll(async () => {
  gateway = await startGateway(['--upstream', await upstream.listen()], SETTINGS);
  server = await startServer(SETTINGS);
});
afterAll(async () => {
  await gateway.stop();
  await server.stop();
  await upstream.close();
});

const now = () => new Date().toUTCString();

/** Sends a request to the end, and hangs up as soon as its effect has happened: the answer is lost. */
async function loseAnswer(path: string, key: string): Promise<void> {
  const { socket } = await gateway.open();
  const before = upstream.seen.length;
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: ${key}\r\nContent-Length: 0\r\n\r\n`,
  );
  await until(
    async () => upstream.seen.length,
    (seen) => seen > before,
  );
  socket.destroy();
}

function send(path: string, key: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(gateway.url + path, {
    method: 'POST',
    headers: { 'idempotency-key': key, ...headers },
  });
}

it('[H20] an answer is lost and the window passes: the retry at the gateway is refused, the effect ran once', async () => {
  const firstSent = now();
  await loseAnswer('/charge?delay=200', 'lost-1');
  const soon = await send('/charge?delay=200', 'lost-1', { 'idempotency-first-sent': firstSent });
  expect([soon.status, soon.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
  await sleep(PASSED_MS);
  const late = await send('/charge?delay=200', 'lost-1', { 'idempotency-first-sent': firstSent });
  expect(late.status).toBe(412);
  expect(await late.json()).toMatchObject({
    type: expect.stringMatching(/\/key-expired$/),
    retry: 'never',
    happened: 'unknown',
  });
  expect(upstream.count('/charge')).toBe(1);
  expect((await scrape(gateway.admin)).get('onceward_expired_total')).toBe(1);
});

it('[H20] a gateway says until when an answer is kept, and its promise holds', async () => {
  const first = await send('/orders', 'kept-1');
  const until_ = Date.parse(first.headers.get('idempotency-kept-until') ?? '');
  expect(until_ - Date.now()).toBeGreaterThan(0);
  expect(until_ - Date.now()).toBeLessThanOrEqual(WINDOW_SECONDS * 1_000);
  await sleep(until_ - Date.now() - 200);
  const replay = await send('/orders', 'kept-1');
  expect(replay.headers.get('idempotency-replayed')).toBe('true');
  expect(replay.headers.get('idempotency-kept-until')).toBe(new Date(until_).toUTCString());
  for (const path of ['/failing', '/events', '/large']) {
    const unkept = await send(path, 'unkept-1');
    await unkept.arrayBuffer();
    expect(unkept.headers.get('idempotency-kept-until'), path).toBeNull();
  }
});

it('[H20] what a gateway cannot read as a date is refused before the upstream is asked', async () => {
  const refused = await send('/never', 'odd-1', { 'idempotency-first-sent': 'soon' });
  expect(refused.status).toBe(400);
  expect(await refused.json()).toMatchObject({ happened: 'unknown', status: 400 });
  expect(upstream.count('/never')).toBe(0);
});

it('[H20] a job whose key may have been forgotten is not created again', async () => {
  const key = newKey('retention');
  const job = { type: 'echo', payload: { n: 1 } };
  const headers = { 'idempotency-first-sent': now() };
  const response = await postJson(`${server.url}/jobs`, job, { 'idempotency-key': key });
  const keptUntil = Date.parse(response.headers.get('idempotency-kept-until') ?? '');
  expect(keptUntil - Date.now()).toBeLessThanOrEqual(WINDOW_SECONDS * 1_000);
  expect(keptUntil - Date.now()).toBeGreaterThan(-1_000);
  const { job_id } = (await response.json()) as { job_id: string };
  expect(await submitJob(server.url, key, job, headers)).toMatchObject({ body: { job_id } });
  await sleep(PASSED_MS);
  const late = await submitJob(server.url, key, job, headers);
  expect(late).toMatchObject({ status: 412, body: { retry: 'never', happened: 'unknown' } });
  const { body } = await getJson<{ jobs: { job_id: string }[] }>(`${server.url}/jobs`, ADMIN);
  expect(body.jobs.map((one) => one.job_id)).toEqual([job_id]);
  const odd = await submitJob(server.url, key, job, { 'idempotency-first-sent': 'soon' });
  expect(odd).toMatchObject({ status: 400 });
});

it('[H20] a job first sent within the window is created', async () => {
  const headers = { 'idempotency-first-sent': now() };
  const made = await submitJob(server.url, newKey('young'), { type: 'echo' }, headers);
  expect(made).toMatchObject({ status: 202, body: { was_duplicate: false } });
});

it('[H20] an operation whose key may have been forgotten is not claimed', async () => {
  const reserve = (more: object) =>
    postJson(
      `${server.url}/v1/operations/reserve`,
      { scope: 's', key: 'old', fingerprint: 'f', wait_ms: 0, ...more },
      ADMIN,
    ).then((response) => response.json());
  const first_sent_at = Date.now() - PASSED_MS;
  expect(await reserve({ first_sent_at })).toMatchObject({ decision: 'expired', fence: null });
  expect(await reserve({})).toMatchObject({ decision: 'claimed' });
  expect(await reserve({ first_sent_at })).toMatchObject({ decision: 'in_progress' });
});
