import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Idempotency } from '@node-idempotency/core';
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis';
import { createClient } from '@redis/client';
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import type { RecordStore } from 'onceward';
import { idempotency } from 'onceward/fastify';
import { openPostgresStore } from 'onceward/postgres';
import { openRedisStore } from 'onceward/redis';
import { Pool } from 'pg';

/** What the store writes for a request of this bench, seen with STRLEN. */
const CLAIM_BYTES = 147;
const SETTLED_BYTES = 304;

interface Order {
  readonly item: string;
  readonly amount: number;
}

async function openStore(url: string, guard: string | undefined): Promise<RecordStore> {
  return url.startsWith('redis:')
    ? openRedisStore(guard === 'driver' ? { client: createClient({ url }) } : { url })
    : openPostgresStore({ pool: new Pool({ connectionString: url }) });
}

/** The least that a guard could write to Redis: two SETs for each request, one before and one after the handler. */
async function addPlainSets(app: FastifyInstance, url: string): Promise<void> {
  const client = createClient({ url });
  await client.connect();
  const keyOf = (request: FastifyRequest) =>
    `onceward:{22:tenant-42|POST /orders${String(request.headers['idempotency-key'])}}`;
  app.addHook('preHandler', async (request) => {
    await client.sendCommand(['SET', keyOf(request), CLAIM]);
  });
  app.addHook('onSend', async (request) => {
    await client.sendCommand(['SET', keyOf(request), SETTLED]);
  });
}

/**
 * The peer that costs least: the core of `@node-idempotency` between the hooks where its plugin has it. Two plain
 * commands of Redis and no fence; the answer is kept as JSON, and the key is anybody's.
 */
async function addPeer(app: FastifyInstance, url: string): Promise<void> {
  const storage = new RedisStorageAdapter({ url });
  await storage.connect();
  const peer = new Idempotency(storage);
  const paramsOf = ({ headers, body, url: path, method }: FastifyRequest) => ({
    headers,
    body: body as Record<string, unknown>,
    path,
    method,
  });
  app.addHook('preHandler', async (request, reply) => {
    const kept = await peer.onRequest<string, string>(paramsOf(request));
    if (kept === undefined) return;
    reply.code(Number(kept.additional?.statusCode)).header('idempotency-replayed', 'true');
    return reply.send(kept.body ?? kept.error);
  });
  app.addHook('onSend', async (request, reply, body) => {
    const { statusCode } = reply;
    const additional = { statusCode, 'content-type': reply.getHeader('content-type') };
    await peer.onResponse(paramsOf(request), { additional, body });
  });
}

const CLAIM = Buffer.alloc(CLAIM_BYTES, 1);
const SETTLED = Buffer.alloc(SETTLED_BYTES, 1);

/** Fastify with one route, bare or with the store of this address before it. */
async function listenerFor(
  storeUrl: string | undefined,
  guard: string | undefined,
): Promise<RequestListener> {
  const app = fastify();
  if (storeUrl !== undefined && guard === 'plain') await addPlainSets(app, storeUrl);
  else if (storeUrl !== undefined && guard === 'peer') await addPeer(app, storeUrl);
  else if (storeUrl !== undefined) {
    app.register(idempotency, {
      store: await openStore(storeUrl, guard),
      scopeFrom: () => 'tenant-42',
      effect: { kind: 'external', onLapse: 'in_doubt' },
    });
  }
  let orders = 0;
  app.post<{ Body: Order }>('/orders', async (request, reply) => {
    orders += 1;
    reply.code(201);
    const { item, amount } = request.body;
    return { order_id: `order-${orders}`, item, amount, status: 'accepted' };
  });
  await app.ready();
  return app.routing as RequestListener;
}

const server = createServer(await listenerFor(process.argv[2], process.argv[3]));
server.listen(0, '127.0.0.1', () => {
  process.send!({ port: (server.address() as AddressInfo).port });
});
process.on('message', () => process.send!(process.cpuUsage()));
