import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  CALLS_PATH,
  digestOf,
  LINES_TYPE,
  type ManagerEndpoint,
  PULSE_MS,
  SIGNATURE_HEADER,
  SUBMISSIONS_PATH,
} from 'onceward/jobs';
import { Problem } from '../api/problem.ts';
import type { Api } from '../api/zod-schemas.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** What the body must come to; set where gates are served. */
    signedDigest?: string;
  }
}

/** A batch may hold one payload of the longest kind, and what comes along. */
const LONGEST_BATCH = 72 * 1_048_576;

/** The manager's side of what gates and managers say to each other. In a scope of its own: bodies stay text here. */
export function managerRoutes(api: Api, endpoint: ManagerEndpoint): void {
  api.removeAllContentTypeParsers();
  api.addContentTypeParser(
    'application/json',
    { parseAs: 'string', bodyLimit: LONGEST_BATCH },
    (_request, body, done) => done(null, body),
  );
  const gatesOnly = { schema: { hide: true }, onRequest: requireGate(endpoint) };

  api.post(SUBMISSIONS_PATH, { ...gatesOnly, bodyLimit: LONGEST_BATCH }, async (request, reply) => {
    const body = signedBody(request);
    reply.hijack();
    const { raw } = reply;
    raw.writeHead(200, { 'content-type': LINES_TYPE, 'cache-control': 'no-store' });
    const pulse = setInterval(() => raw.write('\n'), PULSE_MS);
    const lines = new GatheredLines(raw);
    try {
      await endpoint.answerSubmissions(body, lines.add);
      lines.end();
    } catch {
      // The gate takes a broken answer for a dead manager, and retries.
      raw.destroy();
    } finally {
      clearInterval(pulse);
    }
  });

  api.post(CALLS_PATH, gatesOnly, async (request, reply) => {
    const answer = await endpoint.answerCall(signedBody(request));
    return reply.type('application/json').send(JSON.stringify(answer));
  });
}

/** Submissions that become durable together are answered together: with one write, where each had its own. */
class GatheredLines {
  readonly #response: ServerResponse;
  #text = '';

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  readonly add = (line: string): void => {
    if (this.#text === '') process.nextTick(this.#write);
    this.#text += line;
  };

  end(): void {
    this.#response.end(this.#text);
    this.#text = '';
  }

  readonly #write = (): void => {
    if (this.#text === '') return;
    this.#response.write(this.#text);
    this.#text = '';
  };
}

/** Strangers are refused before anything of their body is read. */
function requireGate(endpoint: ManagerEndpoint) {
  return (request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void => {
    const signature = request.headers[SIGNATURE_HEADER];
    const given = typeof signature === 'string' ? signature : undefined;
    const digest = endpoint.expectedDigest(given, Date.now());
    if (digest !== null) request.signedDigest = digest;
    done(digest === null ? stranger() : undefined);
  };
}

function signedBody({ body, signedDigest }: FastifyRequest): string {
  if (typeof body === 'string' && digestOf(body) === signedDigest) return body;
  throw stranger();
}

function stranger(): Problem {
  return new Problem(
    'unauthorized',
    'this is for gates that share the secret of this manager, and whose clock is right',
  );
}
