import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import express, { type ErrorRequestHandler, type RequestHandler } from 'express';
import { afterEach, expect, it } from 'vitest';
import { idempotency } from '../../src/doors/express.ts';
import { withIdempotency } from '../../src/doors/node.ts';
import { memoryStore } from '../../src/stores/memory/index.ts';
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

async function serve(...handlers: RequestHandler[]): Promise<DoorClient> {
  const app = express();
  for (const handler of handlers) app.use(handler);
  return listen(app);
}

async function listen(listener: RequestListener): Promise<DoorClient> {
  const door = await listenOn(createServer(listener));
  const client = new DoorClient(door.url);
  closing.push(() => client.close(), door.close);
  return client;
}

/** Puts methods of its own on the response, as compression and session middleware do. */
function shouting(): RequestHandler {
  return (_request, response, next) => {
    const { end, writeHead } = response;
    response.writeHead = function (this: ServerResponse, ...all: unknown[]) {
      this.setHeader('x-shouted', 'yes');
      return (writeHead as (...rest: unknown[]) => ServerResponse).apply(this, all);
    } as typeof response.writeHead;
    response.end = function (this: ServerResponse, chunk?: unknown, ...rest: unknown[]) {
      const loud = chunk === undefined ? chunk : Buffer.from(String(chunk).toUpperCase());
      return (end as (...all: unknown[]) => ServerResponse).call(this, loud, ...rest);
    } as typeof response.end;
    next();
  };
}

const handler: RequestHandler = (_request, response) => {
  response.type('text').removeHeader('etag');
  response.end('quiet');
};

it('[H5] middleware before the door works on original and replay alike', async () => {
  const client = await serve(shouting(), idempotency(options()), handler);
  for (const replayed of ['false', 'true']) {
    const reply = await client.send({ key: 'one' });
    expect([reply.text, reply.headers['x-shouted']]).toEqual(['QUIET', 'yes']);
    expect(reply.headers['idempotency-replayed']).toBe(replayed);
  }
});

it('[H5] what middleware behind the door makes of an answer is what is kept', async () => {
  const client = await serve(idempotency(options()), shouting(), handler);
  for (const replayed of ['false', 'true']) {
    const reply = await client.send({ key: 'one' });
    expect(reply.text).toBe('QUIET');
    expect(reply.headers['idempotency-replayed']).toBe(replayed);
  }
});

it('[E4] a door behind another does not wait for it: the first one counts', async () => {
  const both = options();
  const client = await serve(idempotency(both), idempotency(both), handler);
  expect((await client.send({ key: 'one' })).text).toBe('quiet');
  expect((await client.send({ key: 'one' })).headers['idempotency-replayed']).toBe('true');
});

it('[H6] an answer that was given stands, though the handler fails after it', async () => {
  const errors: unknown[] = [];
  const failing: RequestHandler = (_request, response) => {
    response.status(201).json({ order: 1 });
    response.status(500).json({ order: 2 });
  };
  const note: ErrorRequestHandler = (error: NodeJS.ErrnoException, _request, _response, next) => {
    errors.push(error.code);
    next(error);
  };
  const client = await serve(idempotency(options()), failing, note as unknown as RequestHandler);
  // Express hangs up on errors that come after an answer; the answer is kept all the same.
  await client.send({ key: 'one', headers: { connection: 'close' } }).catch(() => {});
  expect(errors).toEqual(['ERR_HTTP_HEADERS_SENT']);
  const replay = await client.send({ key: 'one' });
  expect([replay.status, replay.json()]).toEqual([201, { order: 1 }]);
});

/** An Express application gives every response that comes in a prototype of its own. */
function counting(): express.Express {
  const inner = express();
  let runs = 0;
  inner.use((_request, response) => {
    runs += 1;
    response.status(201).json({ runs });
  });
  return inner;
}

it.each<[string, () => Promise<DoorClient>]>([
  ['an application within an application', () => serve(idempotency(options()), counting())],
  [
    'an application within a router',
    () => serve(idempotency(options()), express.Router().use(counting())),
  ],
  ["an application behind Node's door", () => listen(withIdempotency(counting(), options()))],
])('[H5] the answer of %s is kept', async (_name, start) => {
  const client = await start();
  for (const replayed of ['false', 'true']) {
    const reply = await client.send({ key: 'one' });
    expect([reply.status, reply.json()]).toEqual([201, { runs: 1 }]);
    expect(reply.headers['idempotency-replayed']).toBe(replayed);
  }
});
