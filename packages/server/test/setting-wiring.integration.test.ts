import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { startFaultProxy } from 'onceward/testing';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { startRedis } from '../../../scripts/services/index.ts';
import { jobIs, newKey, submitJob, until } from './job-client.ts';
import { startGateway } from './running-gateway.ts';
import { postJson, startServer, temporaryFolder } from './running-program.ts';
import { scrape } from './scrape.ts';
import { UpstreamServer } from './upstream-server.ts';

/** Settings that a program could read and never use: each test fails on a server that runs with the default. */

const upstream = new UpstreamServer();
let upstreamUrl: string;
beforeAll(async () => {
  upstreamUrl = await upstream.listen();
});
afterAll(() => upstream.close());

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function gatewayWith(env: Record<string, string>) {
  const gateway = await startGateway(['--upstream', upstreamUrl], env);
  closing.push(() => gateway.stop());
  return gateway;
}

async function serverWith(env: Record<string, string>) {
  const server = await startServer({ ONCEWARD_LOG_LEVEL: 'fatal', ...env });
  closing.push(() => server.stop());
  return server;
}

function post(url: string, key: string, body = '{}'): Promise<Response> {
  const headers = { 'idempotency-key': key, 'content-type': 'application/json' };
  return fetch(url, { method: 'POST', headers, body });
}

it('[H18] IDEMPOTENCY_FINGERPRINT=canonical compares JSON by value', async () => {
  const { url } = await gatewayWith({ IDEMPOTENCY_FINGERPRINT: 'canonical' });
  await post(`${url}/canonical`, 'one', '{"a":1,"b":2}');
  const again = await post(`${url}/canonical`, 'one', '{ "b": 2.0, "a": 1 }');
  expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
});

it('[H18] IDEMPOTENCY_KEEP_STREAMS=true keeps a stream for its retry', async () => {
  const { url } = await gatewayWith({ IDEMPOTENCY_KEEP_STREAMS: 'true' });
  const first = await (await post(`${url}/events/kept`, 'one')).text();
  const again = await post(`${url}/events/kept`, 'one');
  expect(again.headers.get('idempotency-replayed')).toBe('true');
  expect(await again.text()).toBe(first);
  expect(upstream.count('/events/kept')).toBe(1);
});

it('[H18] IDEMPOTENCY_NOT_RETAINED=rerun runs again what was too large to keep', async () => {
  const { url } = await gatewayWith({ IDEMPOTENCY_NOT_RETAINED: 'rerun' });
  for (let time = 0; time < 2; time += 1) {
    const answer = await post(`${url}/large/again`, 'one');
    expect((await answer.arrayBuffer()).byteLength).toBe(3_000_000);
  }
  expect(upstream.count('/large/again')).toBe(2);
});

it('[H18] IDEMPOTENCY_ON_LAPSE=take_over runs again what a killed server had begun', async () => {
  const folder = temporaryFolder();
  closing.push(() => folder.remove());
  const env = { ONCEWARD_DATA: folder.path, IDEMPOTENCY_ON_LAPSE: 'take_over' };
  const first = await startServer(env);
  const lost = post(`${first.url}/demo/v1/orders?delay_ms=60000`, 'one', ORDER).catch(() => null);
  await until(
    () => scrape(first.url),
    (seen) => seen.get('onceward_in_flight') === 1,
  );
  await first.program.stop('SIGKILL');
  await lost;
  const second = await serverWith(env);
  // The query is part of the request, so the retry has to ask for the same delay, and is not waited for.
  void post(`${second.url}/demo/v1/orders?delay_ms=60000`, 'one', ORDER).catch(() => null);
  const seen = await until(
    () => scrape(second.url),
    (found) => found.get('onceward_takeovers_total') === 1,
  );
  expect(seen.get('onceward_in_doubt')).toBe(0);
  await second.program.stop('SIGKILL');
});

const ORDER = '{"item":"w","amount":1}';

it('[H18] IDEMPOTENCY_STORE_TIMEOUT_SECONDS says how long a silent store is waited for', async () => {
  const redis = await startRedis();
  const proxy = await startFaultProxy(Number(new URL(redis.url).port));
  closing.push(
    () => redis.dispose(),
    () => proxy.close(),
  );
  const server = await serverWith({
    ONCEWARD_STORE: 'redis',
    ONCEWARD_STORE_URL: `redis://127.0.0.1:${proxy.port}`,
    IDEMPOTENCY_STORE_TIMEOUT_SECONDS: '3',
  });
  expect((await post(`${server.url}/demo/v1/orders`, 'one', ORDER)).status).toBe(201);
  proxy.set({ toClient: { kind: 'hold' } });
  const began = performance.now();
  expect((await post(`${server.url}/demo/v1/orders`, 'two', ORDER)).status).toBe(503);
  expect(performance.now() - began).toBeGreaterThan(2_500);
  proxy.set({});
});

it('[H18] ONCEWARD_SCOPE_FROM says by which header callers are identified', async () => {
  const { url } = await gatewayWith({ ONCEWARD_SCOPE_FROM: 'header:x-customer' });
  for (const customer of ['ada', 'bob', 'ada']) {
    const headers = { 'idempotency-key': 'one', 'x-customer': customer };
    await fetch(`${url}/scoped`, { method: 'POST', headers });
  }
  expect(upstream.count('/scoped')).toBe(2);
});

it('[H18] ONCEWARD_MAX_REQUEST_BYTES bounds the body that is compared, at a gateway and at a server', async () => {
  const env = { ONCEWARD_MAX_REQUEST_BYTES: '1000' };
  const { url } = await gatewayWith(env);
  expect((await post(`${url}/bounded`, 'one', 'x'.repeat(1_001))).status).toBe(413);
  expect((await post(`${url}/bounded`, 'two', 'x'.repeat(1_000))).status).toBe(201);
  const server = await serverWith(env);
  const long = JSON.stringify({ item: 'w', amount: 1, more: 'x'.repeat(1_000) });
  expect((await post(`${server.url}/demo/v1/orders`, 'one', long)).status).toBe(413);
});

it('[H18] ONCEWARD_BUFFER_BYTES bounds the bodies that a gateway holds: more wait for room', async () => {
  const gateway = await gatewayWith({ ONCEWARD_BUFFER_BYTES: '1048576' });
  const length = 400_000;
  for (const key of ['one', 'two']) {
    const { socket } = await gateway.open();
    closing.push(() => socket.destroy());
    const head = `POST /held HTTP/1.1\r\nHost: a\r\nIdempotency-Key: ${key}\r\n`;
    socket.write(`${head}Content-Length: ${length}\r\n\r\n${'x'.repeat(length - 1)}`);
  }
  const seen = await until(
    () => scrape(gateway.admin),
    (found) => found.get('onceward_buffer_waiting') === 1,
  );
  expect(seen.get('onceward_buffer_bytes{side="request"}')).toBeLessThan(2 * length);
});

it('[H18] ONCEWARD_UPSTREAM_CONNECTIONS bounds what the upstream sees at once', async () => {
  const { url } = await gatewayWith({ ONCEWARD_UPSTREAM_CONNECTIONS: '1' });
  const both = ['one', 'two'].map((key) => post(`${url}/narrow?delay=700`, key));
  await until(
    async () => upstream.count('/narrow'),
    (count) => count > 0,
  );
  await sleep(300);
  expect(upstream.count('/narrow')).toBe(1);
  await Promise.all(both);
  expect(upstream.count('/narrow')).toBe(2);
});

it('[H18] ONCEWARD_JOB_KEEP_SECONDS says how long a job that is over can be looked up', async () => {
  const { url } = await serverWith({
    ONCEWARD_JOB_KEEP_SECONDS: '1',
    IDEMPOTENCY_CLEANUP_INTERVAL_SECONDS: '1',
  });
  const { body } = await submitJob(url, newKey(), { type: 'echo' });
  const look = () => fetch(`${url}/jobs/${body.job_id}`).then(({ status }) => status);
  expect(await look()).toBe(200);
  expect(await until(look, (status) => status === 404)).toBe(404);
});

it('[H18] ONCEWARD_JOB_WORKER_TIMEOUT_SECONDS says how long a worker may be silent', async () => {
  const silent = createServer(() => {});
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  closing.push(() => {
    silent.closeAllConnections();
    silent.close();
  });
  const { port } = silent.address() as AddressInfo;
  const { url } = await serverWith({
    ONCEWARD_JOB_WORKERS: `mail:never=http://127.0.0.1:${port}/`,
    ONCEWARD_JOB_WORKER_SECRET: 'a-secret-of-the-tests',
    ONCEWARD_JOB_WORKER_TIMEOUT_SECONDS: '1',
  });
  const { body } = await submitJob(url, newKey(), { type: 'mail' });
  expect(await jobIs(url, String(body.job_id), 'in_doubt')).toMatchObject({ attempts: 1 });
});

it('[H18] ONCEWARD_DEMO=false serves no demo', async () => {
  const { url } = await serverWith({ ONCEWARD_DEMO: 'false' });
  const order = { item: 'w', amount: 1 };
  expect((await postJson(`${url}/demo/v1/orders`, order)).status).toBe(404);
});
