import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { Hono } from 'hono';
import { listenOn } from '../testing/doors/door-listening.ts';
import { doorSuite } from '../testing/doors/door-suite.ts';
import { toWebResponse } from '../testing/doors/door-web.ts';
import { type IdempotencyVariables, idempotency } from './hono.ts';

doorSuite({
  name: 'hono',
  async listen({ options, authorize, routes }) {
    const app = new Hono<{ Variables: IdempotencyVariables }>();
    app.use(async (c, next) => {
      if (!authorize(c.req.header('authorization'))) return c.body(null, 401);
      return next();
    });
    app.use(idempotency({ ...options, scopeFrom: (c) => c.req.header('x-user') ?? '' }));
    app.onError((_error, c) => c.text('failed', 500));
    for (const { method, path, respond } of routes) {
      app.on(method, path, async (c) => {
        const text = await c.req.text();
        const body: unknown = text === '' ? undefined : JSON.parse(text);
        return toWebResponse(await respond({ body, idempotency: c.get('idempotency') }));
      });
    }
    const listener = getRequestListener(app.fetch);
    return listenOn(
      createServer((request, response) => {
        void listener(request, response);
      }),
    );
  },
});
