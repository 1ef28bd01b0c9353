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

/** Options of the fetch door. */
export type FetchOptions<R extends Request = Request> = HttpOptions<R> & {
  /** Names the route, such as `/orders/:id`. Left out, each path is a route of its own. */
  readonly route?: string;
};

const contexts = new WeakMap<Request, IdempotencyContext>();

/** What the running handler may know of its attempt: key, fence, downstream key. */
export function idempotencyOf(request: Request): IdempotencyContext | undefined {
  return contexts.get(request);
}

function attach(request: Request, context: IdempotencyContext): void {
  contexts.set(request, context);
}

/**
 * Makes a fetch handler idempotent, whatever serves it. What follows the request is handed through.
 *
 *     export default { fetch: withIdempotency(handler, { store, scopeFrom: userOf, effect }) }
 */
export function withIdempotency<R extends Request, Rest extends readonly unknown[]>(
  handler: (request: R, ...rest: Rest) => Response | Promise<Response>,
  options: FetchOptions<R>,
): (request: R, ...rest: Rest) => Promise<Response> {
  const guard = new HttpGuard<R>(options);
  return async (request, ...rest) => {
    const target = webTarget(request);
    const admission = guard.admit({
      request,
      method: request.method,
      target,
      route: options.route ?? pathOf(target),
      contentType: request.headers.get('content-type') ?? undefined,
      keyLines: webKeyLines(request.headers),
      attach,
    });
    if (admission === null) return handler(request, ...rest);
    if (admission.refusal !== null) return toResponse(admission.refusal);
    const body = await webBody(request, guard.settings.maxBodyBytes);
    const exchange = new WebExchange(request.signal, guard.settings, () =>
      handler(request, ...rest),
    );
    return exchange.respond(() => guard.protect(admission, body, exchange));
  };
}
