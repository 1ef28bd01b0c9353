import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { ProfileName } from '../engine/profiles.ts';
import {
  HttpGuard,
  type HttpOptions,
  type IdempotencyContext,
  nodeKeyLines,
  pathOf,
  problemAnswer,
  sendAnswer,
  serveNode,
} from '../http/index.ts';

export type { HttpOptions, IdempotencyContext } from '../http/index.ts';

// By the name that others add to it under: TypeScript takes `node:http` for a module of its own then.
declare module 'http' {
  interface IncomingMessage {
    /** Set for a protected handler, and on a replay for hooks that run on every answer. */
    idempotency?: IdempotencyContext | undefined;
  }
}

/** Options of the plain Node door. */
export type NodeOptions = HttpOptions<IncomingMessage> & {
  /** Called with what a handler threw; without it, it is printed. The caller gets a 500 either way. */
  readonly onError?: (error: unknown, request: IncomingMessage) => void;
};

type Handler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/**
 * Makes a request listener idempotent:
 *
 *     createServer(withIdempotency(handler, { store, scopeFrom: userOf, effect }))
 */
export function withIdempotency(handler: Handler, options: NodeOptions): RequestListener {
  const guard = new HttpGuard<IncomingMessage>(options);
  const onError = options.onError ?? printError;

  function run(request: IncomingMessage, response: ServerResponse): void {
    callHandler(handler, request, response).catch((error: unknown) => {
      onError(error, request);
      failAnswer(response, guard.settings.profile);
    });
  }

  return (request, response) => {
    const target = request.url ?? '/';
    const admission = guard.admit({
      request,
      method: request.method ?? 'GET',
      target,
      route: pathOf(target),
      contentType: request.headers['content-type'],
      keyLines: nodeKeyLines(request),
      attach,
    });
    if (admission === null) return run(request, response);
    serveNode(guard, admission, request, response, () => run(request, response)).catch(
      (error: unknown) => {
        onError(error, request);
        failAnswer(response, guard.settings.profile);
      },
    );
  };
}

function attach(request: IncomingMessage, context: IdempotencyContext): void {
  request.idempotency = context;
}

async function callHandler(
  handler: Handler,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  await handler(request, response);
}

/** There is no framework to write an error page, and the reason of a failure is not the caller's to read. */
function failAnswer(response: ServerResponse, profile: ProfileName): void {
  if (response.headersSent) {
    response.destroy(new Error('the handler failed after it had begun to answer'));
    return;
  }
  const detail = 'the handler failed before it had answered; retry with the same key';
  sendAnswer(response, problemAnswer('handler-failed', profile, { detail }));
}

function printError(error: unknown): void {
  console.error(error);
}
