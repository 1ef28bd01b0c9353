import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import compress from '@fastify/compress';
import cookie from '@fastify/cookie';
import cors from '@fastify/cors';
import formbody from '@fastify/formbody';
import helmet from '@fastify/helmet';
import multipart from '@fastify/multipart';
import rateLimit from '@fastify/rate-limit';
import session from '@fastify/session';
import serveStatic from '@fastify/static';
import underPressure from '@fastify/under-pressure';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { expect, it } from 'vitest';
import { idempotency } from '../../src/doors/fastify.ts';
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

type FastifyNeighbour = Neighbour<(app: FastifyInstance) => Promise<unknown>>;

const registered = async (done: PromiseLike<unknown>) => {
  await done;
};

const NEIGHBOURS: readonly FastifyNeighbour[] = [
  {
    name: '@fastify/compress',
    mount: () => (app) => registered(app.register(compress, { encodings: ['gzip'] })),
    works: (reply, kind) => {
      if (!['file', 'large', 'stream'].includes(kind)) return;
      expect(reply.headers['content-encoding']).toBe('gzip');
    },
  },
  {
    name: '@fastify/session',
    mount: () => async (app) => {
      await app.register(cookie);
      await app.register(session, {
        secret: 'a secret with a minimum length of 32 characters',
        cookie: { secure: false },
      });
      app.addHook('preValidation', async (request) => {
        (request.session as unknown as { item: string }).item = 'widget';
      });
    },
    works: has('set-cookie'),
    isOfOneAnswer: true,
  },
  {
    name: '@fastify/helmet',
    mount: () => (app) => registered(app.register(helmet)),
    works: has('content-security-policy'),
  },
  {
    name: '@fastify/cors',
    mount: () => (app) => registered(app.register(cors)),
    works: has('access-control-allow-origin'),
  },
  {
    name: '@fastify/rate-limit',
    mount: () => (app) => registered(app.register(rateLimit, { max: 1_000 })),
    works: has('x-ratelimit-remaining'),
  },
  {
    name: '@fastify/multipart',
    mount: () => (app) => registered(app.register(multipart, { attachFieldsToBody: 'keyValues' })),
  },
  { name: '@fastify/formbody', mount: () => (app) => registered(app.register(formbody)) },
  {
    name: '@fastify/static',
    mount: () => (app) =>
      registered(app.register(serveStatic, { root: ASSETS, prefix: '/assets/' })),
  },
  {
    name: '@fastify/under-pressure',
    mount: () => (app) =>
      registered(app.register(underPressure, { maxHeapUsedBytes: Number.MAX_SAFE_INTEGER })),
  },
  {
    name: 'an onSend hook of its own',
    mount: () => async (app) => {
      app.addHook('onSend', async (_request, reply, payload) => {
        reply.header('x-on-send', 'seen');
        return payload;
      });
    },
    works: has('x-on-send'),
  },
  {
    name: 'an onResponse hook of its own',
    mount: (log) => async (app) => {
      app.addHook('onResponse', async () => {
        log.push('answered');
      });
    },
    isLogger: true,
  },
];

type Answer = (request: FastifyRequest, reply: FastifyReply) => unknown;

const answers: Record<Kind, Answer> = {
  json: (request, reply) => reply.code(201).send({ got: request.body ?? null }),
  stream: (_request, reply) =>
    reply.type('text/plain').send(Readable.from(pieces(), { objectMode: false })),
  file: (_request, reply) => reply.type('text/plain').send(createReadStream(TERMS)),
  redirect: (_request, reply) => reply.redirect('/orders/1', 303),
  refused: () => {
    throw new Refusal('sold out');
  },
  failed: () => {
    throw new Error('broken');
  },
  empty: (_request, reply) => reply.code(204).send(),
  large: (_request, reply) => reply.send(LARGE),
  upload: (request, reply) => reply.send({ fields: Object.keys((request.body ?? {}) as object) }),
  page: (_request, reply) => reply.send('a page'),
};

function fastifyStart(
  before: readonly FastifyNeighbour[],
  behind: readonly FastifyNeighbour[],
  log: string[] = [],
): Start {
  return async (hasDoor): Promise<App> => {
    const app = Fastify({ forceCloseConnections: true });
    const runs = new Runs();
    for (const { mount } of before) await mount(log)(app);
    if (hasDoor) await app.register(idempotency, doorOptions());
    for (const { mount } of behind) await mount(log)(app);
    if (!app.hasContentTypeParser('multipart/form-data')) {
      app.addContentTypeParser('multipart/form-data', { parseAs: 'string' }, async () => ({}));
    }
    for (const [kind, answer] of Object.entries(answers)) {
      const method = kind === 'page' ? ['GET', 'HEAD'] : ['POST'];
      app.route({
        method,
        url: `/${kind}`,
        handler: (request, reply) => {
          runs.note(kind);
          return answer(request, reply);
        },
      });
    }
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    return { url, runs, close: () => app.close() };
  };
}

it.each(NEIGHBOURS)(
  '[H14] $name before the Fastify door works, and so does the door',
  async (one) => {
    const log: string[] = [];
    proveWork(one, 'before', await proveBeside(fastifyStart([one], [], log)));
    if (one.isLogger) await expect.poll(() => log.length).toBe(3 * KINDS.length);
  },
);

it.each(NEIGHBOURS)(
  '[H14] $name behind the Fastify door works, and so does the door',
  async (one) => {
    proveWork(one, 'behind', await proveBeside(fastifyStart([], [one])));
  },
);

it('[H14] all of them together are well, before the Fastify door, behind it, and around it', async () => {
  for (const all of [NEIGHBOURS, NEIGHBOURS.toReversed()]) {
    for (let split = 0; split <= all.length; split += 3) {
      await proveBeside(fastifyStart(all.slice(0, split), all.slice(split)));
    }
  }
});
