import type { FastifyInstance, FastifyPluginCallback, FastifyRequest } from 'fastify';
import {
  // Plugins give Fastify's module a name of their own for `RouteOptions`, and there it would be taken for theirs.
  type RouteOptions as DoorRouteOptions,
  HttpGuard,
  type HttpOptions,
  type IdempotencyContext,
  nodeKeyLines,
} from '../http/index.ts';
import { FastifyExchange } from './fastify-exchange.ts';

export type { HttpOptions, IdempotencyContext, RouteOptions } from '../http/index.ts';

const RUN = Symbol('onceward.run');

declare module 'fastify' {
  interface FastifyRequest {
    /** Set for a protected handler, and on a replay for hooks that run on every answer. */
    idempotency: IdempotencyContext | null;
    [RUN]: FastifyExchange | null;
  }
  interface FastifyContextConfig {
    /** What this route does differently; `false` leaves it alone. */
    idempotency?: DoorRouteOptions<FastifyRequest> | boolean;
  }
}

/**
 * Makes routes idempotent. Register it after the hooks that authenticate:
 *
 *     app.register(idempotency, { store, scopeFrom: (request) => request.user.id, effect })
 *
 * A route changes its own settings in `config: { idempotency: { required: true } }`.
 */
const idempotency: FastifyPluginCallback<HttpOptions<FastifyRequest>> = (app, options, done) => {
  const guard = new HttpGuard<FastifyRequest>(options);
  app.decorateRequest('idempotency', null);
  app.decorateRequest(RUN, null);
  addHooks(app, guard);
  done();
};

function addHooks(app: FastifyInstance, guard: HttpGuard<FastifyRequest>): void {
  app.addHook('onRequest', (request, _reply, done) => {
    request[RUN] = admit(guard, request);
    done();
  });
  app.addHook('preHandler', (request, reply, done) => {
    const run = request[RUN];
    if (run === null) done();
    else run.start(reply, done);
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    const run = request[RUN];
    if (run === null) done(null, payload);
    else run.capture(reply, payload, done);
  });
}

function admit(base: HttpGuard<FastifyRequest>, request: FastifyRequest): FastifyExchange | null {
  const { config, url } = request.routeOptions;
  const own = config.idempotency;
  if (own === false || url === undefined) return null;
  const guard = typeof own === 'object' ? base.derive(own) : base;
  const admission = guard.admit({
    request,
    method: request.method,
    target: request.originalUrl,
    route: url,
    contentType: request.headers['content-type'],
    keyLines: nodeKeyLines(request.raw),
    attach,
  });
  return admission === null ? null : new FastifyExchange(guard, admission);
}

function attach(request: FastifyRequest, context: IdempotencyContext): void {
  request.idempotency = context;
}

const plugin: FastifyPluginCallback<HttpOptions<FastifyRequest>> = Object.assign(idempotency, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'onceward',
  [Symbol.for('plugin-meta')]: { name: 'onceward', fastify: '>=4.10 <6' },
});

export { plugin as idempotency };
export default plugin;
