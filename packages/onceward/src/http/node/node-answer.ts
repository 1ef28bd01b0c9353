import type { ServerResponse } from 'node:http';
import { type HttpAnswer, isBodiless } from '../answer.ts';
import type { HeaderList } from '../header-list.ts';

/** The caller has hung up. HTTP/2 emits it on the stream of a response, not on the response. */
export function hasLeft(response: ServerResponse): boolean {
  const { destroyed, stream } = response as ServerResponse & {
    readonly stream?: { readonly destroyed: boolean };
  };
  return destroyed || stream?.destroyed === true;
}

/**
 * Sends an answer on Node's response, over whatever headers the framework has set before. It goes the way that
 * answers of frameworks go, one `end` that writes the head as well, which is the way that neighbours know best.
 */
export function sendAnswer(response: ServerResponse, answer: HttpAnswer): void {
  if (hasLeft(response) || response.headersSent) return;
  const { status, headers, body } = answer;
  response.statusCode = status;
  applyHeaders(response, headers);
  if (!isBodiless(status)) response.setHeader('content-length', body.length);
  response.end(body.length === 0 ? undefined : body);
}

/** The bytes of a chunk; anything else is refused as Node refuses it. */
export function bytesOf(chunk: unknown, encoding: BufferEncoding | undefined): Buffer {
  if (typeof chunk === 'string') return Buffer.from(chunk, encoding);
  if (Buffer.isBuffer(chunk)) return chunk;
  if (chunk instanceof Uint8Array) {
    return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  }
  const error = new TypeError('a chunk of an answer must be a string, a Buffer or a Uint8Array');
  throw Object.assign(error, { code: 'ERR_INVALID_ARG_TYPE' });
}

/** The headers that a handler has set, as a list. */
export function headersOf(response: ServerResponse): HeaderList {
  const list: string[] = [];
  for (const name of response.getHeaderNames()) {
    const value = response.getHeader(name);
    if (Array.isArray(value)) for (const one of value) list.push(name, one);
    else list.push(name, String(value));
  }
  return list;
}

/** The headers given to `writeHead`: pairs, names and values in turn, or an object. */
export function applyHeaders(response: ServerResponse, headers: unknown): void {
  if (Array.isArray(headers)) {
    const list = headers.flat() as string[];
    for (let i = 0; i < list.length; i += 2) response.removeHeader(String(list[i]));
    for (let i = 0; i < list.length; i += 2) response.appendHeader(list[i]!, list[i + 1]!);
  } else if (headers !== null && typeof headers === 'object') {
    for (const [name, value] of Object.entries(headers)) {
      if (value !== undefined) response.setHeader(name, value as string);
    }
  }
}

/** What describes a body that will not be sent after all. */
const OF_THE_BODY = [
  'content-type',
  'content-length',
  'content-encoding',
  'content-disposition',
  'transfer-encoding',
  'etag',
  'last-modified',
  'location',
  'set-cookie',
];

export function forgetBody(response: ServerResponse): void {
  for (const name of OF_THE_BODY) response.removeHeader(name);
  if (Object.hasOwn(response, 'statusMessage')) response.statusMessage = '';
}
