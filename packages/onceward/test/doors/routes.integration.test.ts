import { createServer } from 'node:http';
import express from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
import { validator } from 'hono/validator';
import Koa from 'koa';
import { afterEach, expect, it } from 'vitest';
import { idempotency as expressDoor } from '../../src/doors/express.ts';
import { idempotency as fastifyDoor } from '../../src/doors/fastify.ts';
import { idempotency as honoDoor } from '../../src/doors/hono.ts';
import { idempotency as koaDoor } from '../../src/doors/koa.ts';
import { memoryStore } from '../../src/stores/memory/index.ts';
import { until } from '../../src/testing/doors/door-bench.ts';
import { DoorClient } from '../../src/testing/doors/door-client.ts';
import { listenOn } from '../../src/testing/doors/door-listening.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const options = () =>
  ({
    store: memoryStore(),
    scopeFrom: () => 'ada',
    effect: { kind: 'external', onLapse: 'in_doubt' },
  }) as const;

function clientOf(url: string): DoorClient {
  const client = new DoorClient(url);
  closing.push(() => client.close());
  return client;
}

it('[H14] Express: a middleware of one route knows the route, and its key belongs to all of it', async () => {
  const app = express();
  let runs = 0;
  app.put('/orders/:id', expressDoor({ ...options(), required: true }), (request, response) => {
    runs += 1;
    response.json({ id: request.params.id });
  });
  app.put('/free/:id', (_request, response) => {
    response.json({});
  });
  const door = await listenOn(createServer(app));
  closing.push(door.close);
  const client = clientOf(door.url);
  const put = (path: string, key?: string) =>
    client.send({ method: 'PUT', path, ...(key === undefined ? {} : { key }) });
  expect((await put('/orders/1', 'one')).status).toBe(200);
  expect((await put('/orders/2', 'one')).status).toBe(422);
  expect((await put('/orders/1')).status).toBe(400);
  expect((await put('/free/1')).status).toBe(200);
  expect(runs).toBe(1);
});

it('[H6] Express: what an error handler answers is the answer, kept by its status', async () => {
  const app = express();
  let runs = 0;
  app.use(expressDoor(options()));
  app.post('/orders', () => {
    runs += 1;
    throw new Error('no such item');
  });
  app.use(((error, _request, response, _next) => {
    response.status(422).json({ because: (error as Error).message });
  }) satisfies express.ErrorRequestHandler);
  const door = await listenOn(createServer(app));
  closing.push(door.close);
  const client = clientOf(door.url);
  const replies = [await client.send({ key: 'one' }), await client.send({ key: 'one' })];
  for (const reply of replies) expect(reply.json()).toEqual({ because: 'no such item' });
  expect(replies[1]?.headers['idempotency-replayed']).toBe('true');
  expect(runs).toBe(1);
});

it('[H14] Fastify: routes change their settings in config, or are left alone', async () => {
  const app = Fastify();
  closing.push(() => app.close());
  const runs: Record<string, number> = {};
  const count = (route: string) => ({ n: (runs[route] = (runs[route] ?? 0) + 1) });
  await app.register(fastifyDoor, options());
  const seen: string[] = [];
  app.addHook('onResponse', async ({ idempotency }) => {
    if (idempotency !== null) seen.push(`${idempotency.key} ${idempotency.replayed}`);
  });
  app.post('/plain', async () => count('plain'));
  app.post('/strict', { config: { idempotency: { required: true } } }, async () => count('strict'));
  app.post('/free', { config: { idempotency: false } }, async () => count('free'));
  app.post('/raw', async (_request, reply) => {
    reply.hijack();
    reply.raw.writeHead(200).end('raw');
    count('raw');
    return reply;
  });
  const client = clientOf(await app.listen({ port: 0, host: '127.0.0.1' }));
  expect((await client.send({ path: '/strict' })).status).toBe(400);
  for (const path of ['/plain', '/strict', '/free', '/raw', '/nowhere']) {
    await client.send({ path, key: 'one' });
  }
  expect((await client.send({ path: '/plain', key: 'one' })).json()).toEqual({ n: 1 });
  await until('the replay is seen', () => seen.includes('one true'));
  expect(seen).toContain('one false');
  expect((await client.send({ path: '/free', key: 'one' })).json()).toEqual({ n: 2 });
  const hijacked = await client.send({ path: '/raw', key: 'one' });
  expect(hijacked.json()).toMatchObject({ status: 409, original_status: 200 });
  const nowhere = await client.send({ path: '/nowhere', key: 'one' });
  expect(nowhere.headers['idempotency-replayed']).toBeUndefined();
  expect(runs).toEqual({ plain: 1, strict: 1, free: 2, raw: 1 });
});

it('[H14] Hono: the route of the handler counts, and a validator may read the body first', async () => {
  const app = new Hono();
  let runs = 0;
  app.post(
    '/orders/:id',
    validator('json', (value) => value),
    honoDoor(options()),
    async (c) => {
      runs += 1;
      return c.json(await c.req.json());
    },
  );
  const post = (path: string, body: string) =>
    app.request(path, {
      method: 'POST',
      headers: { 'idempotency-key': 'one', 'content-type': 'application/json' },
      body,
    });
  expect(await (await post('/orders/1', '{"a":1}')).json()).toEqual({ a: 1 });
  expect((await post('/orders/1', '{"a":1}')).headers.get('idempotency-replayed')).toBe('true');
  expect((await post('/orders/1', '{"a":2}')).status).toBe(422);
  expect((await post('/orders/2', '{"a":1}')).status).toBe(422);
  expect(runs).toBe(1);
});

it('[H6] Koa: an error with a status of its own is kept like any answer, and raw answers are seen', async () => {
  const app = new Koa();
  app.silent = true;
  let runs = 0;
  app.use(koaDoor(options()));
  app.use((ctx) => {
    runs += 1;
    if (ctx.path === '/raw') {
      ctx.respond = false;
      ctx.res.writeHead(202, { 'x-raw': 'yes' }).end('raw');
      return;
    }
    if (ctx.path === '/thrown') ctx.throw(422, 'no such item');
  });
  const listener = app.callback();
  const door = await listenOn(
    createServer((request, response) => void listener(request, response)),
  );
  closing.push(door.close);
  const client = clientOf(door.url);
  for (const [path, status, text] of [
    ['/thrown', 422, 'no such item'],
    ['/raw', 202, 'raw'],
    ['/nowhere', 404, 'Not Found'],
  ] as const) {
    const original = await client.send({ path, key: 'one' });
    const replay = await client.send({ path, key: 'one' });
    for (const reply of [original, replay])
      expect([reply.status, reply.text]).toEqual([status, text]);
    expect(original.headers['idempotency-replayed']).toBe('false');
    expect(replay.headers['idempotency-replayed']).toBe('true');
    expect(replay.headers['x-raw']).toBe(original.headers['x-raw']);
  }
  expect(runs).toBe(3);
});
