import { createServer } from 'node:http';
import { connect as connectHttp2, constants } from 'node:http2';
import { connect } from 'node:net';
import { PassThrough, type Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import express from 'express';
import Fastify, { type FastifyContentTypeParser } from 'fastify';
import Koa from 'koa';
import { afterEach, expect, it } from 'vitest';
import { idempotency as expressDoor } from '../../src/doors/express.ts';
import { idempotency as fastifyDoor } from '../../src/doors/fastify.ts';
import { withIdempotency as withFetch } from '../../src/doors/fetch.ts';
import { idempotency as koaDoor } from '../../src/doors/koa.ts';
import type { RecordStore } from '../../src/engine/record-store.ts';
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

interface Begun {
  readonly begun: number;
  readonly rest: Readable;
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function clientOf(app: express.Express): Promise<DoorClient> {
  const door = await listenOn(createServer(app));
  const client = new DoorClient(door.url);
  closing.push(() => client.close(), door.close);
  return client;
}

/** Echoes the length of what the handler was given to read. */
function echo(app: express.Express, calls: number[]): void {
  app.post('/orders', (request, response) => {
    let length = 0;
    request.on('data', (chunk: Buffer) => {
      length += chunk.length;
    });
    request.on('end', () => {
      calls.push(length);
      response.json({ length });
    });
  });
}

it('[H13] the bytes are seen before a parser, however late the door is reached, and none is lost', async () => {
  const app = express();
  const calls: number[] = [];
  app.use(async (_request, _response, next) => {
    await sleep(50);
    next();
  });
  app.use(expressDoor(options()));
  echo(app, calls);
  const client = await clientOf(app);
  for (const length of [1, 1_000, 70_000, 1_048_576]) {
    const body = Buffer.alloc(length, 'a');
    const key = `key-${length}`;
    expect((await client.send({ key, body })).json()).toEqual({ length });
    expect((await client.send({ key, body })).headers['idempotency-replayed']).toBe('true');
    body[length - 1] = 98;
    expect((await client.send({ key, body })).status).toBe(422);
  }
  expect(calls).toEqual([1, 1_000, 70_000, 1_048_576]);
});

it('[H13] a body that a parser has consumed is compared by its value', async () => {
  const app = express();
  let runs = 0;
  app.use(express.json());
  app.use(expressDoor(options()));
  app.post('/orders', (_request, response) => {
    runs += 1;
    response.json({ runs });
  });
  const client = await clientOf(app);
  await client.send({ key: 'one', body: '{"a":1}' });
  expect((await client.send({ key: 'one', body: '{ "a": 1 }' })).json()).toEqual({ runs: 1 });
  expect((await client.send({ key: 'one', body: '{"a":2}' })).status).toBe(422);
});

it('a body longer than is compared is refused before anything runs', async () => {
  const app = express();
  const calls: number[] = [];
  app.use(expressDoor({ ...options(), maxBodyBytes: 1_000 }));
  echo(app, calls);
  const client = await clientOf(app);
  const chunked = { 'transfer-encoding': 'chunked', 'content-length': [] };
  for (const headers of [{}, chunked]) {
    const reply = await client.send({ key: 'one', body: Buffer.alloc(1_001, 'a'), headers });
    expect(reply.status).toBe(413);
    expect(reply.json().type).toMatch(/\/body-too-large$/);
  }
  expect(calls).toEqual([]);
  const web = withFetch(() => new Response('ran'), { ...options(), maxBodyBytes: 10 });
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.alloc(20));
      controller.close();
    },
  });
  const headers = { 'idempotency-key': 'one' };
  const init = { method: 'POST', headers, body, duplex: 'half' };
  expect((await web(new Request('http://localhost/', init as RequestInit))).status).toBe(413);
});

it('a caller who leaves in the middle of its body runs nothing', async () => {
  const app = express();
  const calls: number[] = [];
  app.use(expressDoor(options()));
  echo(app, calls);
  const door = await listenOn(createServer(app));
  closing.push(door.close);
  const socket = connect(Number(new URL(door.url).port), '127.0.0.1');
  socket.write(
    'POST /orders HTTP/1.1\r\nhost: x\r\nidempotency-key: one\r\ncontent-length: 100\r\n\r\nhalf',
  );
  await sleep(50);
  socket.destroy();
  await sleep(50);
  expect(calls).toEqual([]);
});

it('[H13] Fastify compares raw bytes, also of bodies that the handler reads itself', async () => {
  const app = Fastify();
  closing.push(() => app.close());
  app.addHook('onRequest', async () => {
    await sleep(20);
  });
  await app.register(fastifyDoor, options());
  app.addContentTypeParser('application/x-stream', (_request, _payload, done) => done(null));
  app.post('/orders', async (request) => {
    let length = 0;
    if (request.body === undefined) {
      for await (const chunk of request.raw) length += (chunk as Buffer).length;
    }
    return { length };
  });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const client = new DoorClient(url);
  closing.push(() => client.close());
  const headers = { 'content-type': 'application/x-stream' };
  const body = Buffer.alloc(300_000, 'a');
  expect((await client.send({ key: 'one', body, headers })).json()).toEqual({ length: 300_000 });
  expect((await client.send({ key: 'one', body, headers })).json()).toEqual({ length: 300_000 });
  body[0] = 98;
  expect((await client.send({ key: 'one', body, headers })).status).toBe(422);
  await client.send({ key: 'two', body: '{"n":12345678901234567890}' });
  expect((await client.send({ key: 'two', body: '{"n":12345678901234567891}' })).status).toBe(422);
});

/** Each reads in its own way, and says how many bytes it was given. */
const parsers: Record<string, FastifyContentTypeParser> = {
  'collects chunks': (_request, payload, done) => {
    let length = 0;
    payload.on('data', (chunk: Buffer) => {
      length += chunk.length;
    });
    payload.on('end', () => done(null, length));
  },
  'reads text': (_request, payload, done) => {
    let text = '';
    payload.setEncoding('utf8');
    payload.on('data', (chunk: string) => {
      text += chunk;
    });
    payload.on('end', () => done(null, Buffer.byteLength(text)));
  },
  'reads when there is something': (_request, payload, done) => {
    let length = 0;
    payload.on('readable', () => {
      for (let chunk = payload.read(); chunk !== null; chunk = payload.read()) {
        length += (chunk as Buffer).length;
      }
    });
    payload.on('end', () => done(null, length));
  },
  'iterates, a little late': async (_request: unknown, payload: AsyncIterable<Buffer>) => {
    await sleep(5);
    let length = 0;
    for await (const chunk of payload) length += chunk.length;
    return length;
  },
  'pipes, and does not wait for the end': (_request, payload, done) => {
    const through = new PassThrough();
    payload.pipe(through);
    done(null, through);
  },
  'begins to read, and leaves the rest to the handler': (_request, payload, done) => {
    payload.once('data', (chunk: Buffer) => {
      payload.pause();
      done(null, { begun: chunk.length, rest: payload });
    });
  },
};

for (const [how, parser] of Object.entries(parsers)) {
  it(`[H13] Fastify compares all bytes with a parser that ${how}, and takes none away`, async () => {
    const app = Fastify();
    closing.push(() => app.close());
    await app.register(fastifyDoor, options());
    app.addHook('onRequest', async () => {
      await sleep(5);
    });
    app.addContentTypeParser('application/x-own', parser);
    app.post('/orders', async ({ body }) => {
      if (typeof body === 'number') return { length: body };
      const { begun, rest } =
        body instanceof PassThrough ? { begun: 0, rest: body } : (body as Begun);
      let length = begun;
      for await (const chunk of rest) length += (chunk as Buffer).length;
      return { length };
    });
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    const client = new DoorClient(url);
    closing.push(() => client.close());
    const headers = { 'content-type': 'application/x-own' };
    for (const length of [1, 1_000, 70_000, 1_000_000]) {
      const body = Buffer.alloc(length, 'a');
      const key = `key-${length}`;
      expect((await client.send({ key, body, headers })).json()).toEqual({ length });
      expect((await client.send({ key, body, headers })).headers['idempotency-replayed']).toBe(
        'true',
      );
      body[length - 1] = 98;
      expect((await client.send({ key, body, headers })).status).toBe(422);
    }
  });
}

/** Parsers that leave the stream in a state of their own. */
const halfReaders: Record<string, FastifyContentTypeParser> = {
  'lets it flow to nobody': (_request, payload, done) => {
    payload.resume();
    done(null);
  },
  'looks at the beginning and puts it back': (_request, payload, done) => {
    payload.once('data', (chunk: Buffer) => {
      payload.pause();
      payload.unshift(chunk);
      done(null);
    });
  },
  'listens and pauses': (_request, payload, done) => {
    payload.on('data', () => {});
    payload.pause();
    done(null);
  },
  'pipes to where nobody reads yet': (_request, payload, done) => {
    payload.pipe(new PassThrough());
    done(null);
  },
};

for (const [how, parser] of Object.entries(halfReaders)) {
  it(`[H13] Fastify distinguishes bodies with a parser that ${how}`, async () => {
    const app = Fastify();
    closing.push(() => app.close());
    await app.register(fastifyDoor, options());
    app.addHook('onRequest', async () => {
      await sleep(20);
    });
    app.addContentTypeParser('application/x-own', parser);
    app.post('/orders', async () => ({ ok: true }));
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    const tail = 'y'.repeat(30_000);
    const first = await sendChunked(url, ['to=ada&', 'amount=1', tail]);
    const again = await sendChunked(url, ['to=ada&amount=1', tail]);
    const other = await sendChunked(url, ['to=ada&', 'amount=9', tail]);
    expect([first, again, other].map((reply) => reply.slice(9, 12))).toEqual(['200', '200', '422']);
    expect(again).toContain('idempotency-replayed: true');
  });
}

/** Under one key and on a connection of its own; the answer as it came. */
async function sendChunked(url: string, chunks: readonly string[]): Promise<string> {
  const head =
    'POST /orders HTTP/1.1\r\nhost: x\r\nidempotency-key: one\r\nconnection: close\r\n' +
    'content-type: application/x-own\r\ntransfer-encoding: chunked\r\n\r\n';
  const body = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`);
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.setTimeout(5_000, () => socket.destroy(new Error('no answer')));
  socket.write(`${head}${body.join('')}0\r\n\r\n`);
  return text(socket);
}

it('[H13] what an earlier middleware pipes or decodes is seen once and stays as it was', async () => {
  const ways: Record<string, (request: express.Request) => void> = {
    pipes: (request) => void request.pipe(new PassThrough()),
    decodes: (request) => void request.setEncoding('latin1'),
  };
  for (const [name, prepare] of Object.entries(ways)) {
    const app = express();
    const seen: string[] = [];
    app.use(async (request, _response, next) => {
      if (name === 'decodes') prepare(request);
      await sleep(50);
      if (name === 'pipes') {
        request.on('data', (chunk: Buffer) => seen.push(chunk.toString('latin1')));
        prepare(request);
      }
      next();
    });
    app.use(expressDoor(options()));
    app.post('/orders', async (request, response) => {
      if (name === 'decodes') for await (const chunk of request) seen.push(chunk as string);
      response.json({});
    });
    const client = await clientOf(app);
    const body = Buffer.alloc(40_000, Buffer.from('é', 'latin1'));
    await client.send({ key: 'one', body });
    expect(seen.join('').length).toBe(40_000);
    expect(seen.join('')).toBe(body.toString('latin1'));
  }
});

const refusers = {
  Express: async () => {
    const app = express();
    app.use(expressDoor({ ...options(), maxBodyBytes: 1_000 }));
    app.post('/orders', (_request, response) => void response.json({}));
    const door = await listenOn(createServer(app));
    closing.push(door.close);
    return door.url;
  },
  Koa: async () => {
    const app = new Koa();
    app.use(koaDoor({ ...options(), maxBodyBytes: 1_000 }));
    app.use((ctx) => {
      ctx.body = {};
    });
    const serve = app.callback();
    const server = createServer((request, response) => void serve(request, response));
    const door = await listenOn(server);
    closing.push(door.close);
    return door.url;
  },
  Fastify: async () => {
    const app = Fastify({ forceCloseConnections: true });
    closing.push(() => app.close());
    await app.register(fastifyDoor, { ...options(), maxBodyBytes: 1_000 });
    app.addContentTypeParser('*', (_request, _payload, done) => done(null));
    app.post('/orders', async () => ({}));
    return app.listen({ port: 0, host: '127.0.0.1' });
  },
};

for (const [name, listen] of Object.entries(refusers)) {
  it(`${name}: after a body that was too long, the connection carries the next request`, async () => {
    const socket = connect(Number(new URL(await listen()).port), '127.0.0.1');
    closing.push(() => socket.destroy());
    let answers = '';
    socket.on('data', (chunk) => {
      answers += String(chunk);
    });
    const head = (key: string, length: string) =>
      `POST /orders HTTP/1.1\r\nhost: x\r\nidempotency-key: ${key}\r\ncontent-type: a/b\r\n${length}\r\n\r\n`;
    socket.write(head('one', 'transfer-encoding: chunked'));
    for (let i = 0; i < 20; i += 1) socket.write(`c350\r\n${'x'.repeat(50_000)}\r\n`);
    socket.write(`0\r\n\r\n${head('two', 'content-length: 2')}hi`);
    await expect
      .poll(() => answers.match(/HTTP\/1\.1 \d+/g), { timeout: 10_000 })
      .toEqual(['HTTP/1.1 413', 'HTTP/1.1 200']);
  });
}

it('[H13] a stream of HTTP/2 is compared whole, and runs nothing when it is reset in the middle', async () => {
  const app = Fastify({ http2: true });
  closing.push(() => app.close());
  let runs = 0;
  await app.register(fastifyDoor as never, options() as never);
  app.addContentTypeParser('application/x-own', (_request, payload, done) => {
    payload.read(0);
    setTimeout(() => done(null), 80);
  });
  app.post('/orders', async () => ({ runs: ++runs }));
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const session = connectHttp2(url);
  closing.unshift(() => session.destroy());
  const headers = { 'idempotency-key': 'one', 'content-type': 'application/x-own' };
  const post = () => session.request({ ':method': 'POST', ':path': '/orders', ...headers });
  const broken = post();
  broken.on('error', () => {});
  broken.write(Buffer.alloc(16_384));
  await sleep(30);
  broken.close(constants.NGHTTP2_CANCEL);
  await sleep(200);
  expect(runs).toBe(0);
  const whole = post();
  whole.end(Buffer.alloc(50_000));
  expect(JSON.parse(await text(whole))).toEqual({ runs: 1 });
  const other = post();
  other.end(Buffer.alloc(50_001));
  expect(JSON.parse(await text(other))).toMatchObject({ status: 422 });
});

it('HTTP/2: a caller that leaves while its claim is written finds that nothing was run', async () => {
  const inner = memoryStore();
  const store: RecordStore = {
    traits: inner.traits,
    read: (id) => inner.read(id),
    swap: async (id, expected, next) => {
      if (expected === null) await sleep(120);
      return inner.swap(id, expected, next);
    },
    scan: (query) => inner.scan(query),
    count: () => inner.count(),
    close: () => inner.close(),
  };
  const app = Fastify({ http2: true });
  closing.push(() => app.close());
  let runs = 0;
  await app.register(fastifyDoor as never, { ...options(), store } as never);
  app.post('/orders', async () => ({ runs: ++runs }));
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const session = connectHttp2(url);
  closing.unshift(() => session.destroy());
  const headers = { 'idempotency-key': 'one', ':method': 'POST', ':path': '/orders' };
  const leaving = session.request(headers, { endStream: true });
  leaving.on('error', () => {});
  await sleep(60);
  leaving.close(constants.NGHTTP2_CANCEL);
  await sleep(200);
  expect(runs).toBe(0);
  const staying = session.request(headers, { endStream: true });
  expect(JSON.parse(await text(staying))).toEqual({ runs: 1 });
});

it('[H14] Fastify requests that are injected are protected too', async () => {
  const app = Fastify();
  closing.push(() => app.close());
  let runs = 0;
  await app.register(fastifyDoor, options());
  app.post('/orders', async () => ({ runs: ++runs }));
  const request = {
    method: 'POST',
    url: '/orders',
    headers: { 'idempotency-key': 'one' },
    payload: { item: 'widget' },
  } as const;
  expect((await app.inject(request)).json()).toEqual({ runs: 1 });
  const replay = await app.inject(request);
  expect(replay.json()).toEqual({ runs: 1 });
  expect(replay.headers['idempotency-replayed']).toBe('true');
});
