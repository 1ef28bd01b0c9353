import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, request as httpRequest, type RequestListener } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import express, { type RequestHandler } from 'express';
import session, { MemoryStore } from 'express-session';
import Koa from 'koa';
import { afterEach, expect, it } from 'vitest';
import { idempotency } from '../../src/doors/express.ts';
import { idempotency as koaDoor } from '../../src/doors/koa.ts';
import { withIdempotency } from '../../src/doors/node.ts';
import { memoryStore } from '../../src/stores/memory/index.ts';
import { openWalStore } from '../../src/stores/wal/index.ts';
import { DoorClient } from '../../src/testing/doors/door-client.ts';
import { listenOn } from '../../src/testing/doors/door-listening.ts';
import { OWN_WRAPS, PACKAGES } from './express-neighbours.ts';

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

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function listen(listener: RequestListener): Promise<{ client: DoorClient; port: number }> {
  const door = await listenOn(createServer(listener));
  const client = new DoorClient(door.url);
  closing.push(() => client.close(), door.close);
  return { client, port: Number(new URL(door.url).port) };
}

function appOf(...handlers: RequestHandler[]): express.Express {
  const app = express();
  app.set('env', 'test');
  for (const handler of handlers) app.use(handler);
  return app;
}

/** A session whose store takes its time, so that `end` of the response comes later. */
function slowSession(saved: string[]): RequestHandler {
  const store = new MemoryStore();
  const set = store.set.bind(store);
  store.set = (id, value, done) => {
    setTimeout(() => {
      saved.push(id);
      set(id, value, done);
    }, 40);
  };
  return session({ store, secret: 'not a secret', resave: true, saveUninitialized: true });
}

it.each(['before', 'behind'])(
  '[H14] a session that is saved before the answer ends, %s the door, holds up nobody',
  async (place) => {
    const saved: string[] = [];
    const door = idempotency(options());
    let runs = 0;
    const answer: RequestHandler = (_request, response) => {
      runs += 1;
      response.status(201).json({ runs });
    };
    const neighbour = slowSession(saved);
    const order = place === 'before' ? [neighbour, door] : [door, neighbour];
    const { client } = await listen(appOf(...order, answer));
    const first = await client.send({ key: 'one' });
    expect([first.status, first.json()]).toEqual([201, { runs: 1 }]);
    expect(first.headers['set-cookie']).toHaveLength(1);
    const replay = await client.send({ key: 'one' });
    expect([replay.status, replay.json()]).toEqual([201, { runs: 1 }]);
    expect(replay.headers['idempotency-replayed']).toBe('true');
    expect(saved).toHaveLength(place === 'before' ? 2 : 1);
  },
);

it('[H14] a door on the application and on the route as well runs a request once', async () => {
  const both = options();
  const app = appOf(idempotency(both));
  let runs = 0;
  app.post(
    '/orders',
    idempotency(both),
    (_request, response) => void response.json({ runs: ++runs }),
  );
  const { client } = await listen(app);
  for (const replayed of ['false', 'true']) {
    const reply = await client.send({ key: 'one' });
    expect([reply.json(), reply.headers['idempotency-replayed']]).toEqual([{ runs: 1 }, replayed]);
  }
});

it('[H14] a handler that throws after its answer costs the connection, and a retry gets the answer', async () => {
  let runs = 0;
  const answerAndThrow: RequestHandler = (_request, response) => {
    response.status(201).json({ runs: ++runs });
    throw new Error('after the answer');
  };
  const directory = await mkdtemp(join(tmpdir(), 'onceward-moments-'));
  const store = await openWalStore({ directory });
  closing.push(
    () => store.close(),
    () => rm(directory, { recursive: true }),
  );
  const door = idempotency({ ...options(), store });
  const { client } = await listen(appOf(door, answerAndThrow));
  await expect(client.send({ key: 'one' })).rejects.toThrow();
  const retry = await client.send({ key: 'one' });
  expect([retry.status, retry.json()]).toEqual([201, { runs: 1 }]);
  expect(retry.headers['idempotency-replayed']).toBe('true');
});

it('[H14] a second Koa door behind the first does not wait for it', async () => {
  const both = options();
  const app = new Koa();
  let runs = 0;
  app.use(koaDoor(both)).use(koaDoor(both));
  app.use((ctx) => {
    ctx.body = { runs: ++runs };
  });
  const serve = app.callback();
  const { client } = await listen((request, response) => void serve(request, response));
  expect((await client.send({ key: 'one' })).json()).toEqual({ runs: 1 });
  expect((await client.send({ key: 'one' })).headers['idempotency-replayed']).toBe('true');
});

it('[H14] callbacks of write and end are called, finish comes once, and a second end waits for it', async () => {
  const heard: string[] = [];
  const { client } = await listen(
    withIdempotency((_request, response) => {
      response.on('finish', () => heard.push('finish'));
      response.cork();
      response.write('one', () => heard.push('wrote'));
      response.write('two', 'utf8', () => heard.push('wrote'));
      response.uncork();
      response.end('three', () => heard.push('ended'));
      response.end(() => heard.push('ended again'));
    }, options()),
  );
  expect((await client.send({ key: 'one' })).text).toBe('onetwothree');
  await expect.poll(() => heard.length).toBe(5);
  expect(heard.toSorted()).toEqual(['ended', 'ended again', 'finish', 'wrote', 'wrote']);
  expect((await client.send({ key: 'one' })).text).toBe('onetwothree');
});

it('[H14] what is not bytes is refused as Node refuses it', async () => {
  const codes: unknown[] = [];
  const { client } = await listen(
    withIdempotency((_request, response) => {
      for (const method of ['write', 'end'] as const) {
        try {
          response[method]({} as never);
        } catch (error) {
          codes.push((error as NodeJS.ErrnoException).code);
        }
      }
      response.end('all the same');
    }, options()),
  );
  expect((await client.send({ key: 'one' })).text).toBe('all the same');
  expect(codes).toEqual(['ERR_INVALID_ARG_TYPE', 'ERR_INVALID_ARG_TYPE']);
});

it('[H14] what is said before an answer is said at once', async () => {
  const said: number[] = [];
  const { port } = await listen(
    withIdempotency(async (_request, response) => {
      response.writeProcessing();
      response.writeEarlyHints({ link: '</style.css>; rel=preload' });
      response.writeContinue();
      await expect.poll(() => said).toEqual([102, 103, 100]);
      response.end('done');
    }, options()),
  );
  const status = await new Promise((resolve, reject) => {
    const sent = httpRequest({ port, method: 'POST', headers: { 'idempotency-key': 'one' } });
    sent.on('information', ({ statusCode }) => said.push(statusCode));
    sent.on('response', (response) => resolve(response.resume().statusCode)).on('error', reject);
    sent.end();
  });
  expect(status).toBe(200);
});

const CROWD = [...PACKAGES, ...OWN_WRAPS].filter(({ name }) => name !== 'cookie-session');
const crowd = () => CROWD.map(({ mount }) => mount([]));

it('[H14] requests sent one behind the other are answered in turn beside all neighbours', async () => {
  let runs = 0;
  const { port } = await listen(
    appOf(...crowd(), idempotency(options()), (_request, response) => {
      runs += 1;
      setTimeout(() => response.json({ url: response.req.url }), (runs % 3) * 5);
    }),
  );
  const socket = connect(port, '127.0.0.1');
  closing.unshift(() => socket.destroy());
  let received = '';
  socket.on('data', (chunk) => {
    received += String(chunk);
  });
  for (let i = 0; i < 40; i += 1) {
    socket.write(`POST /${i % 20} HTTP/1.1\r\nhost: x\r\nidempotency-key: key-${i % 20}\r\n\r\n`);
  }
  const answers = () => [...received.matchAll(/"url":"\/(\d+)"/g)].map(([, url]) => Number(url));
  const inTurn = Array.from({ length: 40 }, (_, i) => i % 20);
  await expect.poll(answers, { timeout: 10_000 }).toEqual(inTurn);
  expect(runs).toBe(20);
});

it.each(['before', 'behind'])(
  '[H14] a caller that leaves at any moment finds its answer later, with all neighbours %s the door',
  async (place) => {
    let runs = 0;
    const door = idempotency(options());
    const order = place === 'before' ? [...crowd(), door] : [door, ...crowd()];
    const { client, port } = await listen(
      appOf(...order, async (_request, response) => {
        runs += 1;
        await sleep(20);
        response.status(201).json({ done: true });
      }),
    );
    const moments = [0, 2, 5, 10, 15, 18, 20, 22, 25, 30, 40];
    for (const moment of moments) {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => {});
      const head = 'POST /orders HTTP/1.1\r\nhost: x\r\nx-user: ada\r\n';
      socket.write(`${head}idempotency-key: at-${moment}\r\n\r\n`);
      await sleep(moment);
      socket.destroy();
    }
    await sleep(60);
    for (const moment of moments) {
      const reply = await client.send({ key: `at-${moment}` });
      expect([moment, reply.status, reply.json()]).toEqual([moment, 201, { done: true }]);
    }
    expect(runs).toBe(moments.length);
  },
);

it('[H9] what streams goes out as it comes, with all neighbours before the door', async () => {
  let goOn = () => {};
  const heard = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const { client } = await listen(
    appOf(...crowd(), idempotency(options()), async (_request, response) => {
      response.type('text').write('first ');
      // Compression holds bytes back until it is flushed.
      setImmediate(() => setImmediate(() => response.flush()));
      await heard;
      response.end('last');
    }),
  );
  const text = await new Promise((resolve, reject) => {
    let body = '';
    client
      .begin({ key: 'one' }, (response) => {
        response.on('data', (chunk) => {
          body += String(chunk);
          goOn();
        });
        response.on('end', () => resolve(body));
      })
      .on('error', reject);
  });
  expect(text).toBe('first last');
});

it('[H14] a status that Node refuses is thrown to the handler, with a session before the door too', async () => {
  const app = express();
  app.use(session({ secret: 'only for tests', resave: true, saveUninitialized: true }));
  const effect = { kind: 'external', onLapse: 'take_over' } as const;
  app.use(idempotency({ store: memoryStore(), scopeFrom: () => 'ada', effect }));
  app.post('/orders', (request, response) => {
    if (request.query.by === 'head') response.writeHead(1000);
    response.statusCode = 99;
    response.end('x');
  });
  const door = await listenOn(createServer(app));
  const client = new DoorClient(door.url);
  closing.push(() => client.close(), door.close);
  for (const by of ['head', 'property']) {
    const told = await client.send({ path: `/orders?by=${by}`, key: by });
    expect(told.status).toBe(500);
  }
});
