import { readFile } from 'node:fs/promises';
import { serve } from '@hono/node-server';
import { serveStatic } from '@hono/node-server/serve-static';
import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { compress } from 'hono/compress';
import { cors } from 'hono/cors';
import { etag } from 'hono/etag';
import { HTTPException } from 'hono/http-exception';
import { logger } from 'hono/logger';
import { requestId } from 'hono/request-id';
import { secureHeaders } from 'hono/secure-headers';
import { stream } from 'hono/streaming';
import { timing } from 'hono/timing';
import { expect, it } from 'vitest';
import { idempotency } from '../../src/doors/hono.ts';
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
  Runs,
  type Start,
  TERMS,
} from './matrix.ts';

type HonoNeighbour = Neighbour<MiddlewareHandler>;

const NEIGHBOURS: readonly HonoNeighbour[] = [
  {
    name: 'logger',
    mount: (log) => logger((line) => line.includes('-->') && log.push(line)),
    isLogger: true,
  },
  {
    name: 'compress',
    mount: () => compress({ encoding: 'gzip' }),
    works: (reply, kind) => {
      if (!['file', 'large'].includes(kind)) return;
      expect(reply.headers['content-encoding']).toBe('gzip');
    },
  },
  { name: 'timing', mount: () => timing(), works: has('server-timing') },
  { name: 'secure-headers', mount: () => secureHeaders(), works: has('x-content-type-options') },
  { name: 'cors', mount: () => cors(), works: has('access-control-allow-origin') },
  { name: 'etag', mount: () => etag() },
  { name: 'body-limit', mount: () => bodyLimit({ maxSize: 1_000_000 }) },
  { name: 'request-id', mount: () => requestId(), works: has('x-request-id') },
  { name: 'serve-static', mount: () => serveStatic({ root: ASSETS }) },
];

const answers: Record<Kind, (ctx: Context) => Response | Promise<Response>> = {
  json: async (ctx) => ctx.json({ got: (await ctx.req.json()) as object }, 201),
  stream: (ctx) => {
    ctx.header('content-type', 'text/plain');
    return stream(ctx, async (out) => {
      for await (const piece of pieces()) await out.write(piece);
    });
  },
  file: async (ctx) => ctx.text(await readFile(TERMS, 'utf8')),
  redirect: (ctx) => ctx.redirect('/orders/1', 303),
  refused: () => {
    throw new HTTPException(409, { message: 'sold out' });
  },
  failed: () => {
    throw new HTTPException(500, { message: 'broken' });
  },
  empty: (ctx) => ctx.body(null, 204),
  large: (ctx) => ctx.json(LARGE),
  upload: async (ctx) => ctx.json({ fields: Object.keys(await ctx.req.parseBody()) }),
  page: (ctx) => ctx.text('a page'),
};

function honoStart(
  before: readonly HonoNeighbour[],
  behind: readonly HonoNeighbour[],
  log: string[] = [],
): Start {
  return async (hasDoor): Promise<App> => {
    const app = new Hono();
    const runs = new Runs();
    for (const { mount } of before) app.use(mount(log));
    if (hasDoor) app.use(idempotency(doorOptions()));
    for (const { mount } of behind) app.use(mount(log));
    for (const [kind, answer] of Object.entries(answers)) {
      app.all(`/${kind}`, (ctx) => {
        runs.note(kind);
        return answer(ctx);
      });
    }
    return new Promise((resolve) => {
      const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => {
        const close = () => new Promise((closed) => server.close(closed));
        resolve({ url: `http://127.0.0.1:${port}`, runs, close });
      });
    });
  };
}

it.each(NEIGHBOURS)('[H14] $name before the Hono door works, and so does the door', async (one) => {
  const log: string[] = [];
  proveWork(one, 'before', await proveBeside(honoStart([one], [], log)));
  if (one.isLogger) await expect.poll(() => log.length).toBe(3 * KINDS.length);
});

it.each(NEIGHBOURS)('[H14] $name behind the Hono door works, and so does the door', async (one) => {
  const log: string[] = [];
  proveWork(one, 'behind', await proveBeside(honoStart([], [one], log)));
  if (one.isLogger) await expect.poll(() => log.length).toBe(2 * KINDS.length + 2);
});

it('[H14] all of them together are well, before the Hono door, behind it, and around it', async () => {
  for (const all of [NEIGHBOURS, NEIGHBOURS.toReversed()]) {
    for (let split = 0; split <= all.length; split += 3) {
      await proveBeside(honoStart(all.slice(0, split), all.slice(split)));
    }
  }
});
