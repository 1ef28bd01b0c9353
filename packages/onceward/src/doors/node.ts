import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import {
  HttpGuard,
  type HttpOptions,
  type IdempotencyContext,
  nodeKeyLines,
  PROBLEMS,
  pathOf,
  problemAnswer,
  sendAnswer,
  serveNode,
} from '../http/index.ts';

export type { HttpOptions, IdempotencyContext } from '../http/index.ts';

declare module 'node:http' {
  interface IncomingMessage {
    /** Set while a protected handler runs. */
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
      failAnswer(response);
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
    });
    if (admission === null) return run(request, response);
    const begin = (context: IdempotencyContext | null) => {
      request.idempotency = context ?? undefined;
      run(request, response);
    };
    serveNode(guard, admission, request, response, begin).catch((error: unknown) => {
      onError(error, request);
      failAnswer(response);
    });
  };
}

async function callHandler(
  handler: Handler,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  await handler(request, response);
}

/** There is no framework to write an error page, and the reason of a failure is not the caller's to read. */
function failAnswer(response: ServerResponse): void {
  if (response.headersSent) {
    response.destroy(new Error('the handler failed after it had begun to answer'));
    return;
  }
  const { title } = PROBLEMS['operation-failed'];
  sendAnswer(response, problemAnswer('operation-failed', 'http', { detail: title }));
}

function printError(error: unknown): void {
  console.error(error);
}
