import {
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Duplex } from 'node:stream';
import type { HttpAnswer } from 'onceward/http';
import type { OpenConnections } from './open-connections.ts';
import { Problem, type ProblemKind } from './problem.ts';

const REQUEST_TIMEOUT_MS = 120_000;

/** Node would answer a request without a host with an empty page; we have more to say. */
export const SERVER_OPTIONS = {
  requestTimeout: REQUEST_TIMEOUT_MS,
  requireHostHeader: false,
} as const satisfies ServerOptions;

/** Answers what never becomes a request, for every server of ours. */
export function refuseMalformed(server: Server, connections: OpenConnections): void {
  // Node drops headers beyond a number, in silence; whose request it is may be among them. 16 KiB bound them all.
  server.maxHeadersCount = 0;
  server.removeAllListeners('clientError');
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    if (connections.isAnswering(socket)) socket.destroy();
    else refuseRaw(error, socket);
  });
  server.on('checkExpectation', refuseExpectation);
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    // Node no longer listens for its errors, and an unhandled one ends the process.
    socket.on('error', () => socket.destroy());
    // What is written now would be taken for the answer to a request before this one.
    if (connections.isAnswering(socket)) {
      socket.destroy();
      return;
    }
    writeRaw(socket, new Problem('invalid-request', 'this server opens no tunnels'));
  });
}

/** HTTP/1.1 wants to know the host; without one a request may have been meant for another. */
export function assertHost(request: IncomingMessage): void {
  if (request.headers.host !== undefined || request.httpVersion !== '1.1') return;
  throw new Problem('invalid-request', 'the Host header is missing');
}

const PARSER_CODES: Record<string, readonly [ProblemKind, string]> = {
  HPE_HEADER_OVERFLOW: ['headers-too-large', 'send less than 16 KiB of headers'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request-timeout', 'the request did not arrive whole in time'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['body-too-large', 'the chunk extensions are too long'],
};

/** What is not even HTTP gets an answer too, if there is anyone left to read it. */
function refuseRaw(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const malformed = ['invalid-request', 'this is not well-formed HTTP'] as const;
  writeRaw(socket, new Problem(...(PARSER_CODES[error.code ?? ''] ?? malformed)));
}

/** Writes a refusal where there is no response to write it with, and closes the connection. */
export function writeRaw(socket: Duplex, problem: Problem): void {
  const headers = ['content-type', 'application/problem+json'];
  const body = Buffer.from(JSON.stringify(problem.toBody()));
  writeRawAnswer(socket, { status: problem.status, headers, body });
}

/** The same for any answer. */
export function writeRawAnswer(socket: Duplex, answer: HttpAnswer): void {
  const { status, headers, body } = answer;
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`;
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
  // Half a request may still be in flight: nothing that follows on this connection can be trusted.
  socket.write(`${head}content-length: ${body.length}\r\nconnection: close\r\n\r\n`);
  socket.end(body);
  // A sender that never stops and never reads would hold the connection for ever.
  setTimeout(() => socket.destroy(), 1_000).unref();
}

/** `Expect` with anything but 100-continue is refused by hand: Node would answer with an empty page. */
function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const problem = new Problem('expectation-failed', 'only "Expect: 100-continue" can be met');
  const body = JSON.stringify(problem.toBody());
  response.writeHead(problem.status, {
    'content-type': 'application/problem+json',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  });
  response.end(body);
}
