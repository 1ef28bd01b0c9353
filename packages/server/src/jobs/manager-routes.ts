import type { ServerResponse } from 'node:http';
import type { FastifyRequest } from 'fastify';
import {
  CALLS_PATH,
  LINES_TYPE,
  type ManagerEndpoint,
  PULSE_MS,
  SIGNATURE_HEADER,
  SUBMISSIONS_PATH,
} from 'onceward/jobs';
import { Problem } from '../api/problem.ts';
import type { Api } from '../api/zod-schemas.ts';

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
  const schema = { hide: true };

  api.post(SUBMISSIONS_PATH, { schema, bodyLimit: LONGEST_BATCH }, async (request, reply) => {
    const body = signedBody(request, endpoint);
    reply.hijack();
    const { raw } = reply;
    raw.writeHead(200, { 'content-type': LINES_TYPE, 'cache-control': 'no-store' });
    const pulse = setInterval(() => raw.write('\n'), PULSE_MS);
    const lines = new GatheredLines(raw);
    try {
      await endpoint.answerSubmissions(body, lines.add);
      lines.end();
    } catch {
      // The gate takes a broken answer for a manager that is gone, and asks again.
      raw.destroy();
    } finally {
      clearInterval(pulse);
    }
  });

  api.post(CALLS_PATH, { schema }, async (request, reply) => {
    const answer = await endpoint.answerCall(signedBody(request, endpoint));
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

function signedBody(request: FastifyRequest, endpoint: ManagerEndpoint): string {
  const body = typeof request.body === 'string' ? request.body : '';
  const signature = request.headers[SIGNATURE_HEADER];
  const given = typeof signature === 'string' ? signature : undefined;
  if (endpoint.isFromGate(body, given, Date.now())) return body;
  throw new Problem('unauthorized', 'this is for gates that share the secret of this manager');
}
