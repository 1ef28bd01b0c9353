import { createReadStream } from 'node:fs';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import cors from '@koa/cors';
import Koa, { type Middleware } from 'koa';
import bodyParser from 'koa-bodyparser';
import compress from 'koa-compress';
import helmet from 'koa-helmet';
import logger from 'koa-logger';
import rateLimit from 'koa-ratelimit';
import responseTime from 'koa-response-time';
import session from 'koa-session';
import serveStatic from 'koa-static';
import { expect, it } from 'vitest';
import { idempotency } from '../../src/doors/koa.ts';
import { listenOn } from '../../src/testing/doors/door-listening.ts';
import {
  type App,
  ASSETS,
  doorOptions,
  has,
  KINDS,
  type Kind,
  LARGE,
  type Neighbour,
  pieces,
  proveBeside,
  proveWork,
  Refusal,
  Runs,
  type Start,
  TERMS,
} from './matrix.ts';

type KoaNeighbour = Neighbour<(app: Koa) => Middleware>;

const NEIGHBOURS: readonly KoaNeighbour[] = [
  {
    name: 'koa-logger',
    // Two lines for each: the request, and its answer or error.
    mount: (log) => () =>
      logger({ transporter: (line) => !line.includes('<--') && log.push(line) }),
    isLogger: true,
  },
  {
    name: 'koa-compress',
    mount: () => () => compress({ br: false }),
    works: (reply, kind) => {
      if (!['file', 'large', 'stream'].includes(kind)) return;
      expect(reply.headers['content-encoding']).toBe('gzip');
    },
  },
  {
    name: 'koa-session',
    mount: () => (app) => {
      app.keys = ['not a secret'];
      const middleware = session({ key: 'cart' }, app);
      return (ctx, next) =>
        middleware(ctx as never, () => {
          (ctx as unknown as { session: { item: string } }).session.item = 'widget';
          return next();
        });
    },
    works: (reply, kind) => {
      if (kind !== 'refused' && kind !== 'failed') has('set-cookie')(reply);
    },
    isOfOneAnswer: true,
  },
  {
    name: 'koa-response-time',
    mount: () => () => responseTime(),
    works: (reply, kind) => {
      if (kind !== 'refused' && kind !== 'failed') has('x-response-time')(reply);
    },
  },
  { name: 'koa-bodyparser', mount: () => () => bodyParser() },
  {
    name: 'koa-helmet',
    mount: () => () => helmet(),
    works: (reply, kind) => {
      if (kind !== 'refused' && kind !== 'failed') has('content-security-policy')(reply);
    },
  },
  { name: '@koa/cors', mount: () => () => cors(), works: has('access-control-allow-origin') },
  { name: 'koa-static', mount: () => () => serveStatic(ASSETS) },
  {
    name: 'koa-ratelimit',
    mount: () => () => rateLimit({ driver: 'memory', db: new Map(), max: 1_000 }),
    works: (reply, kind) => {
      if (kind !== 'refused' && kind !== 'failed') has('x-ratelimit-remaining')(reply);
    },
  },
];

const answers: Record<Kind, Middleware> = {
  json: (ctx) => {
    ctx.status = 201;
    ctx.body = { got: (ctx.request as { body?: unknown }).body ?? null };
  },
  stream: (ctx) => {
    ctx.type = 'text';
    ctx.body = Readable.from(pieces(), { objectMode: false });
  },
  file: (ctx) => {
    ctx.type = 'text';
    ctx.body = createReadStream(TERMS);
  },
  redirect: (ctx) => {
    ctx.status = 303;
    ctx.redirect('/orders/1');
  },
  refused: () => {
    throw new Refusal('sold out');
  },
  failed: () => {
    throw new Error('broken');
  },
  empty: (ctx) => {
    ctx.status = 204;
  },
  large: (ctx) => {
    ctx.body = LARGE;
  },
  upload: (ctx) => {
    ctx.body = { type: ctx.get('content-type') };
  },
  page: (ctx) => {
    ctx.body = 'a page';
  },
};

function koaStart(
  before: readonly KoaNeighbour[],
  behind: readonly KoaNeighbour[],
  log: string[] = [],
): Start {
  return async (hasDoor): Promise<App> => {
    const app = new Koa();
    app.silent = true;
    const runs = new Runs();
    for (const { mount } of before) app.use(mount(log)(app));
    if (hasDoor) app.use(idempotency(doorOptions()));
    for (const { mount } of behind) app.use(mount(log)(app));
    app.use((ctx, next) => {
      const kind = ctx.path.slice(1) as Kind;
      runs.note(kind);
      return answers[kind](ctx, next);
    });
    const serve = app.callback();
    const server = createServer((request, response) => void serve(request, response));
    return { ...(await listenOn(server)), runs };
  };
}

it.each(NEIGHBOURS)('[H14] $name before the Koa door works, and so does the door', async (one) => {
  const log: string[] = [];
  proveWork(one, 'before', await proveBeside(koaStart([one], [], log)));
  if (one.isLogger) await expect.poll(() => log.length).toBe(3 * KINDS.length);
});

it.each(NEIGHBOURS)('[H14] $name behind the Koa door works, and so does the door', async (one) => {
  const log: string[] = [];
  proveWork(one, 'behind', await proveBeside(koaStart([], [one], log)));
  if (one.isLogger) await expect.poll(() => log.length).toBe(2 * KINDS.length + 2);
});

it('[H14] all of them together are well, before the Koa door, behind it, and around it', async () => {
  for (const all of [NEIGHBOURS, NEIGHBOURS.toReversed()]) {
    for (let split = 0; split <= all.length; split += 3) {
      await proveBeside(koaStart(all.slice(0, split), all.slice(split)));
    }
  }
});
