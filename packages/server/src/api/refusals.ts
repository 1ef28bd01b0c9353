import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { Problem, type ProblemKind, problemOf } from './problem.ts';
import type { Api } from './zod-schemas.ts';

/** Everything that goes wrong leaves as problem+json, and what is our own fault stays in the log. */
export function refuseProperly(app: Api, log: Logger): void {
  app.setErrorHandler((error, request, reply) => {
    const problem = toProblem(error);
    if (problem.status >= 500 && !isDeparture(error, request)) {
      log.error({ err: error, route: request.routeOptions.url }, 'failed');
    }
    return sendProblem(reply, problem);
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0]?.slice(0, 200);
    const detail = `nothing answers ${request.method} ${path}; see /docs/ for what does`;
    return sendProblem(reply, new Problem('not-found', detail));
  });
}

/** A stream whose reader has left ends early. That is no error. */
function isDeparture(error: unknown, request: FastifyRequest): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ERR_STREAM_PREMATURE_CLOSE' && request.raw.socket.destroyed;
}

export function sendProblem(
  reply: FastifyReply,
  problem: Problem,
  more: object = {},
): FastifyReply {
  if (problem.retryAfterSeconds !== undefined) {
    reply.header('retry-after', problem.retryAfterSeconds);
  }
  return reply
    .code(problem.status)
    .header('content-type', 'application/problem+json')
    .header('cache-control', 'no-store')
    .send(Buffer.from(JSON.stringify({ ...problem.toBody(), ...more })));
}

/**
 * For routes that callers of the ledger use as well, whose errors stand in an envelope: the problem has it as one more
 * member, so that both kinds of callers read what they know.
 */
export function refuseInBothForms(
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  const problem = toProblem(error);
  if (problem.status >= 500) request.log.error({ err: error }, 'failed');
  return sendProblem(reply, problem, { error: problem.toEnvelope() });
}

const FASTIFY_CODES: Record<string, readonly [ProblemKind, string]> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['body-too-large', 'send a shorter body'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [
    'unsupported-media-type',
    'send the body as application/json, and say so in Content-Type',
  ],
  FST_ERR_CTP_EMPTY_JSON_BODY: [
    'invalid-request',
    'the body is empty although Content-Type says that it is JSON; send a body, or no Content-Type',
  ],
  FST_ERR_CTP_INVALID_JSON_BODY: ['invalid-request', 'the body is not valid JSON'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    'invalid-request',
    'the body is shorter or longer than its Content-Length says',
  ],
  FST_ERR_BAD_URL: ['invalid-request', 'the path holds a % that is followed by no byte in hex'],
  FST_ERR_MAX_PARAM_LENGTH: ['uri-too-long', 'a part of the path is too long'],
};

export function toProblem(error: unknown): Problem {
  const known = problemOf(error);
  if (known !== null) return known;
  const { code, statusCode } = error as Partial<FastifyError>;
  const named = code === undefined ? undefined : FASTIFY_CODES[code];
  if (named !== undefined) return new Problem(...named);
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new Problem('invalid-request', 'the request could not be read');
  }
  return new Problem('internal-error', 'the fault is on this side and has been logged');
}

/** For faults that Fastify finds before there is a route. */
export function refuseEarly(error: FastifyError, _request: FastifyRequest, reply: FastifyReply) {
  sendProblem(reply, toProblem(error));
}
