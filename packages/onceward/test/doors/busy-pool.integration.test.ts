import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import express from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type PostgresServer, startPostgres } from '../../../../scripts/services/index.ts';
import { idempotency as expressDoor } from '../../src/doors/express.ts';
import { idempotency as fastifyDoor } from '../../src/doors/fastify.ts';
import { idempotencyOf, withIdempotency } from '../../src/doors/fetch.ts';
import { idempotency as honoDoor } from '../../src/doors/hono.ts';
import { idempotency as koaDoor } from '../../src/doors/koa.ts';
import {
  openPostgresStore,
  type PgClient,
  type PostgresStore,
} from '../../src/stores/postgres/index.ts';
import { DoorClient } from '../../src/testing/doors/door-client.ts';
import { listenOn } from '../../src/testing/doors/door-listening.ts';

const CONNECTIONS = 3;

let server: PostgresServer;
let pool: pg.Pool;
let store: PostgresStore;

beforeAll(async () => {
  server = await startPostgres();
  pool = new pg.Pool({
    connectionString: server.url,
    max: CONNECTIONS,
    connectionTimeoutMillis: 300,
  });
  pool.on('error', () => {});
  store = await openPostgresStore({ pool, notifications: false, timeoutMs: 10_000 });
  await pool.query('create table orders (door text not null)');
}, 60_000);
afterAll(async () => {
  await store.close();
  await pool.end();
  await server.dispose();
});

const options = () =>
  ({
    store,
    scopeFrom: () => 'ada',
    effect: { kind: 'transaction', transact: store.transact },
  }) as never;

function placeOrder(door: string, transaction: unknown): Promise<unknown> {
  return (transaction as PgClient).query('insert into orders values ($1)', [door]);
}

type Door = { readonly url: string; close(): Promise<void> };

const doors: Record<string, () => Promise<Door>> = {
  express() {
    const app = express();
    app.use(expressDoor(options()));
    app.post('/orders', async (request, response) => {
      await placeOrder('express', request.idempotency?.transaction);
      response.status(201).json({ done: true });
    });
    return listenOn(createServer(app));
  },
  async fastify() {
    const app = Fastify();
    app.register(fastifyDoor, options());
    app.post('/orders', async (request, reply) => {
      await placeOrder('fastify', request.idempotency?.transaction);
      return reply.code(201).send({ done: true });
    });
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    return { url, close: () => app.close() };
  },
  koa() {
    const app = new Koa();
    app.use(koaDoor(options()));
    app.use(async (ctx) => {
      await placeOrder('koa', ctx.idempotency?.transaction);
      ctx.status = 201;
      ctx.body = { done: true };
    });
    return listenOn(createServer((request, response) => void app.callback()(request, response)));
  },
  hono() {
    const app = new Hono<{ Variables: { idempotency: { transaction: unknown } } }>();
    app.use('/orders', honoDoor(options()) as never);
    app.post('/orders', async (c) => {
      await placeOrder('hono', c.get('idempotency').transaction);
      return c.json({ done: true }, 201);
    });
    return listenOn(
      createServer((request, response) => void getRequestListener(app.fetch)(request, response)),
    );
  },
  fetch() {
    const serve = withIdempotency(async (request: Request) => {
      await placeOrder('fetch', idempotencyOf(request)?.transaction);
      return Response.json({ done: true }, { status: 201 });
    }, options());
    return listenOn(
      createServer((request, response) => void getRequestListener(serve)(request, response)),
    );
  },
};

describe.each(Object.keys(doors))('behind %s', (name) => {
  it('[E12] a pool that has no connection to give is a 503 that says when to retry, and nothing has happened', async () => {
    const door = await doors[name]!();
    const client = new DoorClient(door.url);
    // The store keeps connections of its own; all that are left are taken.
    const taken: pg.PoolClient[] = [];
    for (;;) {
      const one = await pool.connect().catch(() => null);
      if (one === null) break;
      taken.push(one);
    }
    const refused = await client.send({ path: '/orders', key: `busy-${name}` });
    for (const one of taken) one.release();
    expect(refused.status).toBe(503);
    expect(refused.headers['content-type']).toMatch(/^application\/problem\+json/);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(refused.json()).toMatchObject({ type: expect.stringMatching(/store-unavailable$/) });

    const served = await client.send({ path: '/orders', key: `busy-${name}` });
    expect(served.status).toBe(201);
    const again = await client.send({ path: '/orders', key: `busy-${name}` });
    expect(again.headers['idempotency-replayed']).toBe('true');
    const { rows } = await pool.query('select 1 from orders where door = $1', [name]);
    expect(rows).toHaveLength(1);
    client.close();
    await door.close();
  }, 60_000);
});
