import type { Middleware, ParameterizedContext } from 'koa';
import {
  bodyOf,
  HttpGuard,
  type HttpOptions,
  type IdempotencyContext,
  isWatched,
  nodeKeyLines,
  type ParsedBody,
  pathOf,
  skipRest,
} from '../http/index.ts';
import { KoaExchange, setAnswer } from './koa-exchange.ts';

export type { HttpOptions, IdempotencyContext } from '../http/index.ts';

declare module 'koa' {
  interface DefaultContext {
    /** Set for a protected handler, and on a replay for hooks that run on every answer. */
    idempotency?: IdempotencyContext | undefined;
  }
}

/**
 * Makes the middleware behind it idempotent. Mount it after authentication:
 *
 *     app.use(idempotency({ store, scopeFrom: (ctx) => ctx.state.user.id, effect }))
 */
export function idempotency(options: HttpOptions<ParameterizedContext>): Middleware {
  const guard = new HttpGuard<ParameterizedContext>(options);
  return async (ctx, next) => {
    const { originalUrl: target } = ctx;
    const admission = guard.admit({
      request: ctx,
      method: ctx.method,
      target,
      route: pathOf(target),
      contentType: ctx.get('content-type'),
      keyLines: nodeKeyLines(ctx.req),
      attach,
    });
    // Behind another door the first one counts: this one would wait for it.
    if (admission === null || isWatched(ctx.res)) return next();
    if (admission.refusal !== null) return setAnswer(ctx, admission.refusal);
    const body = await bodyOf(ctx.req, ctx.request as ParsedBody, guard.settings.maxBodyBytes);
    if (body === 'aborted') return;
    if (body === 'too_large') skipRest(ctx.req, ctx.res);
    const exchange = new KoaExchange(ctx, guard.settings, next);
    await exchange.serve(() => guard.protect(admission, body, exchange));
  };
}

function attach(ctx: ParameterizedContext, context: IdempotencyContext): void {
  ctx.idempotency = context;
}
