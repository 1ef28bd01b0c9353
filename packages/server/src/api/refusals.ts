import type { IncomingMessage, ServerResponse } from 'node:http';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { Problem, type ProblemKind, problemOf } from './problem.ts';
import type { Api } from './zod-schemas.ts';

/** Everything that goes wrong leaves as problem+json, and what is our own fault stays in the log. */
export function refuseProperly(app: Api, log: Logger): void {
  app.setErrorHandler((error, request, reply) => {
    const problem = toProblem(error);
    if (problem.status >= 500) log.error({ err: error, route: request.routeOptions.url }, 'failed');
    return sendProblem(reply, problem);
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0]?.slice(0, 200);
    const detail = `nothing answers ${request.method} ${path}; see /docs/ for what does`;
    return sendProblem(reply, new Problem('not-found', detail));
  });
}

export function sendProblem(reply: FastifyReply, problem: Problem): FastifyReply {
  if (problem.retryAfterSeconds !== undefined) {
    reply.header('retry-after', problem.retryAfterSeconds);
  }
  return reply
    .code(problem.status)
    .header('content-type', 'application/problem+json')
    .header('cache-control', 'no-store')
    .send(Buffer.from(JSON.stringify(problem.toBody())));
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

const PARSER_CODES: Record<string, readonly [ProblemKind, string]> = {
  HPE_HEADER_OVERFLOW: ['headers-too-large', 'send less than 16 KiB of headers'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request-timeout', 'the request did not arrive whole in time'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['body-too-large', 'the chunk extensions are too long'],
};

/** What is not even HTTP gets an answer too, if there is anyone left to read it. */
export function refuseRaw(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const malformed = ['invalid-request', 'this is not well-formed HTTP'] as const;
  const problem = new Problem(...(PARSER_CODES[error.code ?? ''] ?? malformed));
  const body = JSON.stringify(problem.toBody());
  // Half a request may still be on its way: nothing that follows on this connection can be trusted.
  socket.end(
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n` +
      'content-type: application/problem+json\r\n' +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
  // A sender that never stops and never reads would hold the connection for ever.
  setTimeout(() => socket.destroy(), 1_000).unref();
}

/** `Expect` with anything but 100-continue is refused by hand: Node would answer with an empty page. */
export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const problem = new Problem('expectation-failed', 'only "Expect: 100-continue" can be met');
  const { status } = problem;
  response.writeHead(status, { 'content-type': 'application/problem+json', connection: 'close' });
  response.end(JSON.stringify(problem.toBody()));
}
