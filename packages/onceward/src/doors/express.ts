import type { NextFunction, Request, RequestHandler, Response } from 'express';
import {
  HttpGuard,
  type HttpOptions,
  type IdempotencyContext,
  nodeKeyLines,
  pathOf,
  type RequestFacts,
  serveNode,
} from '../http/index.ts';

export { type HttpOptions, type IdempotencyContext, keepRawBody } from '../http/index.ts';

declare module 'express-serve-static-core' {
  interface Request {
    /** Set for a protected handler, and on a replay for hooks that run on every answer. */
    idempotency?: IdempotencyContext | undefined;
  }
}

/**
 * Makes the routes behind it idempotent. Mount it after authentication, for the whole application or for one route:
 *
 *     app.use(idempotency({ store, scopeFrom: (req) => req.user.id, effect }))
 *
 * Errors go through `next` as ever: the page that the error handler writes is the answer.
 */
export function idempotency(options: HttpOptions<Request>): RequestHandler {
  const guard = new HttpGuard<Request>(options);
  return (request: Request, response: Response, next: NextFunction) => {
    const admission = guard.admit(factsOf(request));
    if (admission === null) {
      next();
      return;
    }
    serveNode(guard, admission, request, response, () => next()).catch(next);
  };
}

function factsOf(request: Request): RequestFacts<Request> {
  const target = request.originalUrl;
  return {
    request,
    method: request.method,
    target,
    route: routeOf(request) ?? pathOf(target),
    contentType: request.headers['content-type'],
    keyLines: nodeKeyLines(request),
    attach,
  };
}

function attach(request: Request, context: IdempotencyContext): void {
  request.idempotency = context;
}

/** The path of the route as it was written, which is known only to a middleware of the route itself. */
function routeOf(request: Request): string | undefined {
  const route = request.route as { readonly path?: unknown } | undefined;
  return route === undefined ? undefined : request.baseUrl + String(route.path);
}
