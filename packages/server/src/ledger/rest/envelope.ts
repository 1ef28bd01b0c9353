import { REFUSALS, type Refusal, retryOf } from '@onceward/ledger';
import type { FastifyReply } from 'fastify';
import { StoreError } from 'onceward';
import type { Logger } from 'pino';
import { toProblem } from '../../api/refusals.ts';
import type { Api } from '../../api/zod-schemas.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

interface ErrorBody {
  readonly code: string;
  readonly message: string;
  readonly retry: string;
  readonly happened: string;
  readonly layer?: string;
}

/** An expected no of the ledger, in the envelope that its callers know. */
export function sendRefusal(reply: FastifyReply, refusal: Refusal): FastifyReply {
  const { code, message, layer } = refusal;
  const { status, happened } = REFUSALS[code];
  if (status === 503) reply.header('retry-after', 1);
  const error = {
    code,
    message,
    retry: retryOf(refusal),
    happened,
    ...(layer === undefined ? {} : { layer }),
  };
  return sendError(reply, status, error);
}

/** An answer that is JSON text already. */
export function sendText(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).header('content-type', JSON_TYPE).send(text);
}

/** Everything else that goes wrong at these routes leaves in the same envelope. */
export function refuseInEnvelopes(api: Api, log: Logger): void {
  api.setErrorHandler((error, request, reply) => {
    if (error instanceof StoreError) {
      log.error({ err: error, route: request.routeOptions.url }, 'ledger_failed');
      reply.header('retry-after', 1);
      return sendError(reply, 503, unavailable(error));
    }
    const problem = toProblem(error);
    if (problem.status >= 500) log.error({ err: error, route: request.routeOptions.url }, 'failed');
    if (problem.retryAfterSeconds !== undefined) {
      reply.header('retry-after', problem.retryAfterSeconds);
    }
    return sendError(reply, problem.status, problem.toEnvelope());
  });
}

function sendError(reply: FastifyReply, status: number, error: ErrorBody): FastifyReply {
  return sendText(reply.header('cache-control', 'no-store'), status, JSON.stringify({ error }));
}

function unavailable({ code: cause, applied, message: why }: StoreError): ErrorBody {
  const code = 'LEDGER_UNAVAILABLE';
  const { retry, happened } = REFUSALS[code];
  if (cause === 'ONCE_RECORD_UNREADABLE') {
    return { code, message: why, retry: 'never', happened: applied === 'no' ? 'no' : happened };
  }
  if (applied === 'no') {
    const message = 'The ledger cannot write now. Nothing happened; try again later.';
    return { code, message, retry, happened: 'no' };
  }
  const message =
    'The ledger stopped while it wrote. Whether this happened is known when it is back: ' +
    'GET /idempotency/{key} and GET /recovery show it.';
  return { code, message, retry, happened };
}
