import type { Context, MiddlewareHandler } from 'hono';
import { createMiddleware } from 'hono/factory';
import { matchedRoutes } from 'hono/route';
import {
  HttpGuard,
  type HttpOptions,
  type IdempotencyContext,
  pathOf,
  toResponse,
  WebExchange,
  webBody,
  webKeyLines,
  webTarget,
} from '../http/index.ts';

export type { HttpOptions, IdempotencyContext } from '../http/index.ts';

/** Declares `c.get('idempotency')` to Hono's types. */
export interface IdempotencyVariables {
  /** Set for a protected handler, and on a replay for hooks that run on every answer. */
  idempotency: IdempotencyContext | undefined;
}

type Env = { Variables: IdempotencyVariables };

/**
 * Makes the routes behind it idempotent. Mount it after authentication:
 *
 *     app.use('/orders/*', idempotency({ store, scopeFrom: (c) => c.get('userId'), effect }))
 */
export function idempotency(options: HttpOptions<Context>): MiddlewareHandler<Env> {
  const guard = new HttpGuard<Context>(options);
  return createMiddleware<Env>(async (c, next) => {
    const request = c.req.raw;
    const target = webTarget(request);
    const admission = guard.admit({
      request: c,
      method: c.req.method,
      target,
      route: routeOf(c) ?? pathOf(target),
      contentType: request.headers.get('content-type') ?? undefined,
      keyLines: webKeyLines(request.headers),
      attach,
    });
    if (admission === null) return next();
    if (admission.refusal !== null) return toResponse(admission.refusal);
    const body = await bodyOf(c, guard.settings.maxBodyBytes);
    const exchange = new WebExchange(request.signal, guard.settings, async () => {
      await next();
      return c.res;
    });
    const response = await exchange.respond(() => guard.protect(admission, body, exchange));
    // Hono would carry the headers of the one over into the other.
    c.res = undefined;
    c.res = response;
  });
}

function attach(c: Context, context: IdempotencyContext): void {
  c.set('idempotency', context);
}

/** The path of the handler as it was written. A path that only middleware listens on is no route. */
function routeOf(c: Context): string | undefined {
  const path = matchedRoutes(c).at(-1)?.path;
  return path?.endsWith('*') ? undefined : path;
}

/** A validator before us may have read the body: Hono remembers what it was. */
async function bodyOf(c: Context, limit: number): Promise<Uint8Array | 'too_large'> {
  if (!c.req.raw.bodyUsed) return webBody(c.req.raw, limit);
  const bytes = new Uint8Array(await c.req.arrayBuffer());
  return bytes.length > limit ? 'too_large' : bytes;
}
