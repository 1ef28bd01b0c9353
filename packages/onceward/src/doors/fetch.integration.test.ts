import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { listenOn } from '../testing/doors/door-listening.ts';
import { doorSuite } from '../testing/doors/door-suite.ts';
import { toWebResponse } from '../testing/doors/door-web.ts';
import { idempotencyOf, withIdempotency } from './fetch.ts';

doorSuite({
  name: 'fetch',
  async listen({ options, authorize, routes }) {
    const handler = withIdempotency(
      async (request: Request) => {
        const { pathname } = new URL(request.url);
        const route = routes.find((one) => one.method === request.method && one.path === pathname);
        if (route === undefined) return new Response(null, { status: 404 });
        const text = await request.text();
        const body: unknown = text === '' ? undefined : JSON.parse(text);
        return toWebResponse(await route.respond({ body, idempotency: idempotencyOf(request) }));
      },
      { ...options, scopeFrom: (request) => request.headers.get('x-user') ?? '' },
    );
    const listener = getRequestListener(
      async (request) => {
        if (!authorize(request.headers.get('authorization') ?? undefined)) {
          return new Response(null, { status: 401 });
        }
        return handler(request);
      },
      { errorHandler: () => new Response('failed', { status: 500 }) },
    );
    return listenOn(
      createServer((request, response) => {
        void listener(request, response);
      }),
    );
  },
});
