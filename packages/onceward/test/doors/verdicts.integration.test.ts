import { createServer } from 'node:http';
import express from 'express';
import pg from 'pg';
import { afterEach, expect, it } from 'vitest';
import { startPostgres } from '../../../../scripts/services/index.ts';
import { idempotency } from '../../src/doors/express.ts';
import { createOnceward } from '../../src/index.ts';
import { memoryStore } from '../../src/stores/memory/index.ts';
import { openPostgresStore, type PgClient } from '../../src/stores/postgres/index.ts';
import { DoorClient } from '../../src/testing/doors/door-client.ts';
import { listenOn } from '../../src/testing/doors/door-listening.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(app: express.Express): Promise<DoorClient> {
  const door = await listenOn(createServer(app));
  const client = new DoorClient(door.url);
  closing.push(() => client.close(), door.close);
  return client;
}

/** What an operator found at the bank: no answer of ours. */
const RECEIPT = { contentType: 'application/json', bytes: Buffer.from('{"receipt":7}') };

it.each([
  ['committed', 'response-not-retained', 'yes', {}],
  ['rejected', 'operation-rejected', 'no', {}],
  ['committed', 'response-not-retained', 'yes', { outcome: RECEIPT }],
  ['rejected', 'operation-rejected', 'no', { outcome: RECEIPT }],
] as const)(
  '[E6] [E16] a doubt that was resolved as %s is told so to its retry, as %s and %s, with %j',
  async (as, type, happened, more) => {
    const engine = createOnceward({ store: memoryStore(), sweep: false });
    closing.push(() => engine.close());
    const app = express();
    const effect = { kind: 'external', onLapse: 'in_doubt' } as const;
    app.use(idempotency({ engine, scopeFrom: () => 'ada', effect }));
    app.post('/orders', (request, response) => {
      request.idempotency?.doubt();
      response.status(504).end();
    });
    const client = await serve(app);
    await client.send({ key: 'one' });
    for await (const { id } of engine.list({ states: ['in_doubt'], limit: 1 })) {
      await engine.resolve(id, { as, by: 'ops', reason: 'looked', keepMs: 60_000, ...more });
    }
    const retry = await client.send({ key: 'one' });
    expect(retry.status).toBe(409);
    expect(retry.json()).toMatchObject({ type: expect.stringContaining(type), happened });
    expect(retry.json().detail).toMatch(/^it was resolved: it did (not )?happen/);
  },
);

it('[E7] [E16] what PostgreSQL undoes for a fault of the handler is called rolled back, and says why', async () => {
  const server = await startPostgres();
  closing.push(() => server.dispose());
  const pool = new pg.Pool({ connectionString: server.url });
  pool.on('error', () => {});
  const store = await openPostgresStore({ pool, notifications: false, timeoutMs: 10_000 });
  closing.unshift(
    () => store.close(),
    () => pool.end(),
  );
  await pool.query(
    'create table parents (id int primary key); create table orders (parent int references parents deferrable initially deferred)',
  );
  const app = express();
  const effect = { kind: 'transaction', transact: store.transact } as const;
  app.use(idempotency({ store, scopeFrom: () => 'ada', effect }));
  app.post('/late', async (request, response) => {
    const tx = request.idempotency?.transaction as PgClient;
    await tx.query('insert into orders values (7)');
    response.status(201).end();
  });
  app.post('/caught', async (request, response) => {
    const tx = request.idempotency?.transaction as PgClient;
    await tx.query('insert into nowhere values (7)').catch(() => {});
    response.status(201).end();
  });
  const client = await serve(app);
  for (const path of ['/late', '/caught']) {
    const told = await client.send({ path, key: 'one' });
    expect(told.status).toBe(500);
    expect(told.json()).toMatchObject({
      type: expect.stringMatching(/rolled-back$/),
      happened: 'no',
    });
  }
  expect((await pool.query('select * from orders')).rows).toEqual([]);
});
