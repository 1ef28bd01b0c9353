import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { listenOn } from '../testing/door-listening.ts';
import { doorSuite } from '../testing/door-suite.ts';
import { toWebResponse } from '../testing/door-web.ts';
import { idempotencyOf, withIdempotency } from './next.ts';

interface RouteContext {
  readonly params: Promise<Record<string, string>>;
}

// The route handlers run behind a plain HTTP adapter, which calls them as Next.js does: with the request, and with
// the parameters of the route behind it.
doorSuite({
  name: 'next route handlers',
  async listen({ options, authorize, routes }) {
    const handlers = new Map(
      routes.map((route) => {
        const handler = withIdempotency(
          async (request: Request, { params }: RouteContext) => {
            await params;
            const text = await request.text();
            const body: unknown = text === '' ? undefined : JSON.parse(text);
            const idempotency = idempotencyOf(request);
            return toWebResponse(await route.respond({ body, idempotency }));
          },
          {
            ...options,
            route: route.path,
            scopeFrom: (request) => request.headers.get('x-user') ?? '',
          },
        );
        return [`${route.method} ${route.path}`, handler];
      }),
    );
    const listener = getRequestListener(
      async (request) => {
        if (!authorize(request.headers.get('authorization') ?? undefined)) {
          return new Response(null, { status: 401 });
        }
        const handler = handlers.get(`${request.method} ${new URL(request.url).pathname}`);
        if (handler === undefined) return new Response(null, { status: 404 });
        return handler(request, { params: Promise.resolve({}) });
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
