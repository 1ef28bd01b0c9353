import { mkdtempSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RecordStore } from 'onceward';
import { memoryStore } from 'onceward/memory';
import { openWalStore } from 'onceward/wal';

/** What is measured: a framework, and what stands before its handler. */
export type ServerKind =
  | 'fastify'
  | 'fastify+memory'
  | 'fastify+wal'
  | 'express'
  | 'express+memory'
  | 'node';

interface Order {
  readonly item: string;
  readonly amount: number;
}

const effect = { kind: 'external', onLapse: 'in_doubt' } as const;
const scopeFrom = () => 'tenant-42';
let orders = 0;

function place({ item, amount }: Order) {
  orders += 1;
  return { order_id: `order-${orders}`, item, amount, status: 'accepted' };
}

async function openStore(kind: ServerKind): Promise<RecordStore | null> {
  if (kind.endsWith('+memory')) return memoryStore();
  if (!kind.endsWith('+wal')) return null;
  return openWalStore({ directory: mkdtempSync(join(tmpdir(), 'onceward-bench-')) });
}

/** Each process loads its own framework alone: as a user's does, and they do not leave Node's classes untouched. */
async function listenerOf(kind: ServerKind): Promise<RequestListener> {
  const store = await openStore(kind);
  if (kind.startsWith('fastify')) {
    const { default: fastify } = await import('fastify');
    const { idempotency: fastifyDoor } = await import('onceward/fastify');
    const app = fastify();
    if (store !== null) app.register(fastifyDoor, { store, scopeFrom, effect });
    app.post<{ Body: Order }>('/orders', async (request, reply) => {
      reply.code(201);
      return place(request.body);
    });
    await app.ready();
    return app.routing as RequestListener;
  }
  if (kind.startsWith('express')) {
    const { default: express } = await import('express');
    const { idempotency: expressDoor } = await import('onceward/express');
    const app = express();
    app.use(express.json());
    if (store !== null) app.use(expressDoor({ store, scopeFrom, effect }));
    app.post('/orders', (request, response) => {
      response.status(201).json(place(request.body as Order));
    });
    return app;
  }
  return (request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      const text = JSON.stringify(place(JSON.parse(body) as Order));
      const headers = { 'content-type': 'application/json', 'content-length': text.length };
      response.writeHead(201, headers).end(text);
    });
  };
}

const server = createServer(await listenerOf(process.argv[2] as ServerKind));
server.listen(0, '127.0.0.1', () => {
  process.send!({ port: (server.address() as AddressInfo).port });
});
process.on('message', () => process.send!(process.cpuUsage()));
