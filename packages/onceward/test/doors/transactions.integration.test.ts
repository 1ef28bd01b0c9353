import { createServer } from 'node:http';
import express from 'express';
import Database from 'libsql';
import { afterEach, expect, it } from 'vitest';
import { idempotency } from '../../src/doors/express.ts';
import {
  openSqliteStore,
  type SqliteDatabase,
  transactionsOn,
} from '../../src/stores/sqlite/index.ts';
import { DoorClient } from '../../src/testing/doors/door-client.ts';
import { listenOn } from '../../src/testing/doors/door-listening.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

it('[E7] an effect of kind transaction commits with its record, or not at all', async () => {
  const database = new Database(':memory:') as unknown as SqliteDatabase;
  database.exec('create table orders (id integer primary key)');
  const store = await openSqliteStore({ database });
  const app = express();
  app.use(
    idempotency({
      store,
      scopeFrom: () => 'ada',
      effect: { kind: 'transaction', transact: transactionsOn(database) },
    }),
  );
  app.post('/orders', (request, response) => {
    const tx = request.idempotency?.transaction as SqliteDatabase;
    tx.exec('insert into orders default values');
    if (request.query.doubt === '1') request.idempotency?.doubt();
    if (request.query.release === '1') request.idempotency?.release();
    response.status(request.query.fail === '1' ? 500 : 201).json({ done: true });
  });
  const door = await listenOn(createServer(app));
  const client = new DoorClient(door.url);
  closing.push(
    () => client.close(),
    door.close,
    () => store.close(),
  );
  const count = () => database.prepare('select count(*) as n from orders').all()[0];

  expect((await client.send({ path: '/orders?fail=1', key: 'a' })).status).toBe(500);
  expect(count()).toEqual({ n: 0 });
  for (const asked of ['doubt', 'release']) {
    const undone = await client.send({ path: `/orders?${asked}=1`, key: asked });
    expect(undone.status).toBe(500);
    expect(undone.json()).toMatchObject({
      type: expect.stringMatching(/rolled-back$/),
      happened: 'no',
    });
    expect(count()).toEqual({ n: 0 });
  }
  expect((await client.send({ key: 'b' })).status).toBe(201);
  expect((await client.send({ key: 'b' })).headers['idempotency-replayed']).toBe('true');
  expect(count()).toEqual({ n: 1 });
  const headers = { 'idempotency-first-sent': new Date(0).toUTCString() };
  expect((await client.send({ key: 'c', headers })).status).toBe(412);
  expect((await client.send({ key: 'b', headers })).headers['idempotency-kept-until']).toMatch(
    /GMT$/,
  );
  expect(count()).toEqual({ n: 1 });
});
