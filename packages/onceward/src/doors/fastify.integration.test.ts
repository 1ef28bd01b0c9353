import { createRequire } from 'node:module';
import Fastify, { type FastifyReply } from 'fastify';
import type { DoorAnswer } from '../testing/doors/door-app.ts';
import { doorSuite } from '../testing/doors/door-suite.ts';
import { idempotency } from './fastify.ts';

function reply(response: FastifyReply, answer: DoorAnswer): FastifyReply {
  switch (answer.kind) {
    case 'json':
      return response.code(answer.status).send(answer.value);
    case 'bytes':
      return response
        .code(answer.status)
        .headers(answer.headers as Record<string, string>)
        .send(answer.bytes);
    case 'empty':
      return response.code(answer.status).headers(answer.headers).send();
    case 'readable':
      return response.headers(answer.headers).send(answer.readable);
    case 'throw':
      throw answer.error;
  }
}

const fastify4 = createRequire(import.meta.url)('fastify4') as typeof Fastify;

for (const [name, framework] of Object.entries({ fastify: Fastify, 'fastify 4': fastify4 })) {
  doorSuite({
    name,
    async listen({ options, authorize, routes }) {
      const app = framework({ forceCloseConnections: true });
      app.addHook('onRequest', async (request, response) => {
        if (!authorize(request.headers.authorization)) return response.code(401).send();
      });
      await app.register(idempotency, {
        ...options,
        scopeFrom: (request) => String(request.headers['x-user']),
      });
      for (const { method, path, respond } of routes) {
        app.route({
          method,
          url: path,
          handler: async ({ body, idempotency }, response) =>
            reply(response, await respond({ body, idempotency })),
        });
      }
      const url = await app.listen({ port: 0, host: '127.0.0.1' });
      return { url, close: () => app.close() };
    },
  });
}
