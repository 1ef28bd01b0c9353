import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient } from '@redis/client';
import fastify from 'fastify';
import type { RecordStore } from 'onceward';
import { idempotency } from 'onceward/fastify';
import { openPostgresStore } from 'onceward/postgres';
import { openRedisStore } from 'onceward/redis';
import { Pool } from 'pg';

interface Order {
  readonly item: string;
  readonly amount: number;
}

async function openStore(url: string): Promise<RecordStore> {
  return url.startsWith('redis:')
    ? openRedisStore({ client: createClient({ url }) })
    : openPostgresStore({ pool: new Pool({ connectionString: url }) });
}

/** Fastify with one route, bare or with the store of this address before it. */
async function listenerFor(storeUrl: string | undefined): Promise<RequestListener> {
  const app = fastify();
  if (storeUrl !== undefined) {
    app.register(idempotency, {
      store: await openStore(storeUrl),
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

const server = createServer(await listenerFor(process.argv[2]));
server.listen(0, '127.0.0.1', () => {
  process.send!({ port: (server.address() as AddressInfo).port });
});
process.on('message', () => process.send!(process.cpuUsage()));
