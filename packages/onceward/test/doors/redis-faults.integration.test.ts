import Fastify, { type FastifyInstance } from 'fastify';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../../../scripts/services/index.ts';
import { idempotency } from '../../src/doors/fastify.ts';
import { openRedisStore, type RedisStore } from '../../src/stores/redis/index.ts';

let redis: RedisServer;
let store: RedisStore;
let app: FastifyInstance;
let url = '';
let runs = 0;
let during: () => Promise<void> | void = () => {};

beforeEach(async () => {
  redis = await startRedis();
  store = await openRedisStore({ url: redis.url });
  runs = 0;
  during = () => {};
  app = Fastify();
  app.register(idempotency, {
    store,
    scopeFrom: () => 'ada',
    effect: { kind: 'external', onLapse: 'in_doubt' },
  });
  app.post('/orders', async () => {
    runs += 1;
    await during();
    return { order: runs };
  });
  url = await app.listen({ port: 0, host: '127.0.0.1' });
});

afterEach(async () => {
  await app.close();
  await store.close();
  await redis.dispose();
});

async function send(key: string): Promise<{ status: number; text: string }> {
  const headers = { 'idempotency-key': key };
  const response = await fetch(`${url}/orders`, { method: 'POST', headers });
  return { status: response.status, text: await response.text() };
}

async function untilAnswered(key: string, status: number): Promise<string> {
  for (let tries = 0; tries < 200; tries += 1) {
    const reply = await send(key);
    if (reply.status === status) return reply.text;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${key} was never answered with ${status}`);
}

it('[E12] Redis killed: 503 soon, and what was refused never runs later', async () => {
  expect((await send('before')).status).toBe(200);
  await redis.kill();
  const began = performance.now();
  const refused = await Promise.all(['a', 'b', 'c'].map(send));
  expect(performance.now() - began).toBeLessThan(5_000);
  expect(refused.map(({ status }) => status)).toEqual([503, 503, 503]);
  await redis.start();
  await untilAnswered('after', 200);
  expect(runs).toBe(2);
});

it('[E12] Redis frozen: 503, and nothing runs when it thaws', async () => {
  redis.pause();
  const refused = await Promise.all(['a', 'b', 'c'].map(send));
  expect(refused.map(({ status }) => status)).toEqual([503, 503, 503]);
  redis.resume();
  await untilAnswered('after', 200);
  expect(runs).toBe(1);
});

it('[E6] Redis dies while the handler runs: the caller has its answer, and nobody runs it again', async () => {
  during = () => redis.kill();
  const original = await send('one');
  expect(original).toEqual({ status: 200, text: '{"order":1}' });
  during = () => {};
  await redis.start();
  expect(await untilAnswered('one', 200)).toBe(original.text);
  expect(runs).toBe(1);
});
