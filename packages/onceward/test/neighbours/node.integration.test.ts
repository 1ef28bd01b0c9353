import { createReadStream } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, createServer as createHttp2, type Http2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { RequestHandler } from 'express';
import { expect, it } from 'vitest';
import { withIdempotency } from '../../src/doors/node.ts';
import { listenOn } from '../../src/testing/doors/door-listening.ts';
import { OWN_WRAPS, PACKAGES } from './express-neighbours.ts';
import {
  type App,
  doorOptions,
  KINDS,
  type Kind,
  LARGE,
  type Neighbour,
  pieces,
  proveBeside,
  proveWork,
  Runs,
  type Start,
  TERMS,
} from './matrix.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** Those that need nothing of Express. */
const OF_EXPRESS = ['json', 'send', 'express', 'multer', 'cookie-parser', 'method-override'];
const NEIGHBOURS = [...PACKAGES, ...OWN_WRAPS]
  .filter(({ name }) => !OF_EXPRESS.some((part) => name.includes(part)))
  // Compresses what has declared no length, however short it is; an answer that was held whole has a length.
  .filter(({ name }) => name !== 'compression');

const answers: Record<Kind, Handler> = {
  json: (_request, response) => {
    response.writeHead(201, { 'content-type': 'application/json' });
    response.end('{"got":"widget"}');
  },
  stream: (_request, response) => {
    response.writeHead(200, 'Fine', { 'content-type': 'text/plain' });
    Readable.from(pieces()).pipe(response);
  },
  file: (_request, response) => {
    response.setHeader('content-type', 'text/plain');
    createReadStream(TERMS).pipe(response);
  },
  redirect: (_request, response) => {
    response.writeHead(303, { location: '/orders/1' }).end();
  },
  refused: (_request, response) => {
    response.writeHead(409, ['content-type', 'text/plain']);
    response.write('sold ');
    response.end('out');
  },
  failed: () => {
    throw new Error('broken');
  },
  empty: (_request, response) => {
    response.statusCode = 204;
    response.end();
  },
  large: (_request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(LARGE));
  },
  upload: (request, response) => {
    void text(request).then((body) => response.end(String(body.length)));
  },
  page: (_request, response) => {
    response.end('a page');
  },
};

/** One after the other, as `connect` calls them. */
function chain(handlers: readonly RequestHandler[], last: Handler): Handler {
  return (request, response) => {
    const step = (at: number): void => {
      if (at === handlers.length) last(request, response);
      else handlers[at]!(request as never, response as never, () => step(at + 1));
    };
    step(0);
  };
}

function handlerOf(
  hasDoor: boolean,
  runs: Runs,
  before: readonly RequestHandler[],
  behind: readonly RequestHandler[],
): Handler {
  const answer = chain(behind, (request, response) => {
    const kind = request.url!.slice(1) as Kind;
    runs.note(kind);
    answers[kind](request, response);
  });
  const options = { ...doorOptions(), onError: () => {} };
  const off = { ...options, mode: 'off' } as const;
  return chain(before, withIdempotency(answer, hasDoor ? options : off));
}

type Mounts = readonly Neighbour<RequestHandler>[];

const mounted = (neighbours: Mounts, log: string[] = []) =>
  neighbours.map(({ mount }) => mount(log));

function nodeStart(before: Mounts, behind: Mounts, log?: string[]): Start {
  return async (hasDoor): Promise<App> => {
    const runs = new Runs();
    const handler = handlerOf(hasDoor, runs, mounted(before, log), mounted(behind, log));
    return { ...(await listenOn(createServer(handler))), runs };
  };
}

it.each(NEIGHBOURS)('[H14] $name before the Node door works, and so does the door', async (one) => {
  const log: string[] = [];
  proveWork(one, 'before', await proveBeside(nodeStart([one], [], log)));
  if (one.isLogger) await expect.poll(() => log.length).toBe(3 * KINDS.length);
});

it.each(NEIGHBOURS)('[H14] $name behind the Node door works, and so does the door', async (one) => {
  const log: string[] = [];
  proveWork(one, 'behind', await proveBeside(nodeStart([], [one], log)));
  if (one.isLogger) await expect.poll(() => log.length).toBe(2 * KINDS.length + 2);
});

it('[H14] all of them together are well, before the Node door, behind it, and around it', async () => {
  for (const all of [NEIGHBOURS, NEIGHBOURS.toReversed()]) {
    for (let split = 0; split <= all.length; split += 3) {
      await proveBeside(nodeStart(all.slice(0, split), all.slice(split)));
    }
  }
});

async function listenHttp2(handler: Handler): Promise<{ server: Http2Server; url: string }> {
  const server = createHttp2(handler as never);
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const OVER_HTTP2 = OWN_WRAPS.filter(({ name }) => NEIGHBOURS.some((one) => one.name === name));

it.each([
  ['before', OVER_HTTP2, []],
  ['behind', [], OVER_HTTP2],
] as const)('[H14] wraps %s the Node door work over HTTP/2 too', async (_place, before, behind) => {
  const runs = new Runs();
  const handler = handlerOf(true, runs, mounted(before), mounted(behind));
  const { server, url } = await listenHttp2(handler);
  const session = connect(url);
  const ask = async (kind: Kind) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': `/${kind}`,
      'idempotency-key': kind,
    });
    let head: Record<string, unknown> = {};
    stream.on('response', (headers) => {
      head = headers;
    });
    stream.setTimeout(5_000, () => stream.destroy(new Error(`${kind} hangs`)));
    stream.end('{}');
    const body = await text(stream);
    return { status: head[':status'], replayed: head['idempotency-replayed'], body };
  };
  for (const kind of ['json', 'stream', 'file', 'redirect', 'refused', 'empty', 'large'] as const) {
    const first = await ask(kind);
    expect(first.replayed).toBe('false');
    expect(await ask(kind)).toEqual({ ...first, replayed: 'true' });
    expect([kind, runs.of(kind)]).toEqual([kind, 1]);
  }
  session.destroy();
  server.close();
});
