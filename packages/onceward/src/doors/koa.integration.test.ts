import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';
import Koa, { type Context } from 'koa';
import type { DoorAnswer } from '../testing/doors/door-app.ts';
import { listenOn } from '../testing/doors/door-listening.ts';
import { doorSuite } from '../testing/doors/door-suite.ts';
import { idempotency } from './koa.ts';

function reply(ctx: Context, answer: DoorAnswer): void {
  switch (answer.kind) {
    case 'json':
      ctx.status = answer.status;
      ctx.body = answer.value;
      return;
    case 'bytes':
      ctx.status = answer.status;
      for (const [name, value] of Object.entries(answer.headers)) ctx.set(name, value as string);
      ctx.body = answer.bytes;
      return;
    case 'empty':
      ctx.set(answer.headers);
      ctx.body = answer.status === 200 ? Buffer.alloc(0) : null;
      ctx.status = answer.status;
      return;
    case 'readable':
      ctx.set(answer.headers);
      ctx.body = answer.readable;
      if ('content-length' in answer.headers) ctx.length = Number(answer.headers['content-length']);
      return;
    case 'throw':
      throw answer.error;
  }
}

const Koa2 = createRequire(import.meta.url)('koa2') as typeof Koa;

for (const [name, Framework] of Object.entries({ koa: Koa, 'koa 2': Koa2 })) {
  doorSuite({
    name,
    async listen({ options, authorize, routes }) {
      const app = new Framework();
      app.silent = true;
      app.use(async (ctx, next) => {
        if (authorize(ctx.get('authorization'))) return next();
        ctx.status = 401;
        ctx.body = '';
      });
      app.use(idempotency({ ...options, scopeFrom: (ctx) => ctx.get('x-user') }));
      app.use(async (ctx) => {
        const route = routes.find((one) => one.method === ctx.method && one.path === ctx.path);
        if (route === undefined) return;
        const sent = await text(ctx.req);
        const body: unknown = sent === '' ? undefined : JSON.parse(sent);
        reply(ctx, await route.respond({ body, idempotency: ctx.idempotency }));
      });
      const listener = app.callback();
      return listenOn(
        createServer((request, response) => {
          void listener(request, response);
        }),
      );
    },
  });
}
