import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { NO_BYTES } from '../answer.ts';

export type RequestBody =
  | Uint8Array
  | 'too_large'
  /** The client hung up before it had sent everything. */
  | 'aborted';

type Chunk = Uint8Array | string;

const TAP = Symbol('onceward.tap');

interface Tapped extends IncomingMessage {
  [TAP]?: BodyTap;
}

/**
 * One function for all messages. Where each had its own closure, messages outlived their requests: half a kilobyte of
 * each was promoted to the old generation, five times what is now.
 */
function pushTapped(this: Tapped, chunk: Chunk | null, encoding?: BufferEncoding): boolean {
  return this[TAP]!.push(chunk, encoding);
}

/**
 * Sees the bytes of a request without consuming them: every chunk is noted as Node pushes it into the stream, and
 * readers of the stream, before or after, find all of it. Install it before the first asynchronous step where
 * the body may be consumed in between.
 */
export class BodyTap {
  readonly #message: IncomingMessage;
  readonly #limit: number;
  #chunks: Uint8Array[] = [];
  #length = 0;
  #state: 'open' | 'whole' | 'too_large' | 'aborted' = 'open';
  #wake: (() => void) | null = null;
  #push: IncomingMessage['push'] | null = null;

  constructor(message: IncomingMessage, limit: number) {
    this.#message = message;
    this.#limit = limit;
    if (!hasBody(message)) {
      this.#state = 'whole';
      return;
    }
    if (Number(message.headers['content-length'] ?? 0) > limit) {
      this.#state = 'too_large';
      return;
    }
    this.#noteBuffered();
    if (message.complete) this.#end('whole');
    else this.#install();
  }

  /** All of the body. Waits for the rest of it, which is held in the stream meanwhile. */
  whole(): RequestBody | Promise<RequestBody> {
    if (this.#state !== 'open') return this.#result();
    return new Promise((resolve) => {
      this.#wake = () => resolve(this.#result());
      // The stream may have stopped its socket when its buffer was full; `read` would leave it so.
      this.#message._read(0);
      this.#message.once('close', () => this.#end('aborted'));
    });
  }

  #result(): RequestBody {
    if (this.#state !== 'whole') return this.#state as 'too_large' | 'aborted';
    if (this.#isCutShort()) return 'aborted';
    if (this.#chunks.length === 1) return this.#chunks[0]!;
    return this.#chunks.length === 0 ? NO_BYTES : Buffer.concat(this.#chunks);
  }

  /** What came before us is in the stream's buffer: taken out, read and put back, unseen by listeners. */
  #noteBuffered(): void {
    const message = this.#message;
    if (message.readableLength === 0) return;
    const listeners = message.rawListeners('data') as (() => void)[];
    message.removeAllListeners('data');
    // A flowing stream gives one chunk at a time, and emits what is put back.
    const isFlowing = message.readableFlowing === true;
    if (isFlowing) message.pause();
    const chunk = message.read() as Chunk | null;
    if (chunk !== null) {
      const encoding = message.readableEncoding ?? undefined;
      message.unshift(chunk, encoding);
      this.#note(chunk, encoding);
    }
    // Not with `on` of a stream, which would set it flowing.
    for (const one of listeners) EventEmitter.prototype.on.call(message, 'data', one);
    if (isFlowing) message.resume();
  }

  #install(): void {
    const message: Tapped = this.#message;
    const { push } = message;
    this.#push = push;
    if (message[TAP] === undefined) {
      message[TAP] = this;
      message.push = pushTapped;
    } else {
      message.push = (chunk, encoding) => this.push(chunk, encoding);
    }
  }

  /** In place of the message's own `push`. */
  push(chunk: Chunk | null, encoding?: BufferEncoding): boolean {
    if (this.#state === 'open') {
      if (chunk === null) this.#end('whole');
      else this.#note(chunk, encoding);
    }
    const wantsMore = this.#push!.call(this.#message, chunk, encoding);
    // While someone waits for the whole, a full buffer must not stop the socket: the limit is ours.
    return wantsMore || (this.#state === 'open' && this.#wake !== null);
  }

  #note(chunk: Chunk, encoding?: BufferEncoding): void {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk;
    this.#length += bytes.length;
    if (this.#length > this.#limit) this.#end('too_large');
    else this.#chunks.push(bytes);
  }

  /** HTTP/2 ends a stream that was reset as if it were complete. */
  #isCutShort(): boolean {
    const { aborted, headers, httpVersionMajor } = this.#message;
    if (httpVersionMajor < 2) return false;
    return aborted || this.#length < Number(headers['content-length'] ?? 0);
  }

  #end(state: 'whole' | 'too_large' | 'aborted'): void {
    if (this.#state !== 'open') return;
    this.#state = state;
    if (state !== 'whole') this.#chunks = [];
    this.#wake?.();
  }
}

/**
 * For a body that was too long. Node drains a body that is unread, so that the connection can carry the next
 * request; reading its beginning ends that.
 */
export function skipRest(message: IncomingMessage, response: ServerResponse): void {
  response.once('finish', () => message.resume());
}

function hasBody(message: IncomingMessage): boolean {
  const { headers, httpVersionMajor } = message;
  const length = headers['content-length'];
  if (headers['transfer-encoding'] !== undefined) return true;
  if (length !== undefined || httpVersionMajor < 2) return (length ?? '0') !== '0';
  // HTTP/2 needs neither header: its streams say themselves whether they end with their head.
  const { stream } = message as { stream?: { readonly endAfterHeaders?: boolean } };
  return stream?.endAfterHeaders !== true;
}

/** Where a parser leaves what it has read: on the request itself, or on the framework's. */
export interface ParsedBody {
  readonly rawBody?: unknown;
  readonly body?: unknown;
}

/**
 * The bytes to compare: the raw ones where they can be had. Of a body that a parser has consumed, what it kept in
 * `rawBody`, and failing that its result, spelled out again: then two spellings of one value are the same request.
 */
export function bodyOf(
  message: IncomingMessage,
  parsed: ParsedBody,
  limit: number,
): RequestBody | Promise<RequestBody> {
  const { rawBody, body } = parsed;
  if (typeof rawBody === 'string' || rawBody instanceof Uint8Array) return within(rawBody, limit);
  if (message.readableDidRead || body !== undefined) {
    const spelled = spell(body);
    // The parsers of Express 4 and of Koa leave an empty object where nothing was sent.
    if (spelled === '{}' && !hasBody(message)) return NO_BYTES;
    return within(spelled, limit);
  }
  return new BodyTap(message, limit).whole();
}

function spell(body: unknown): string | Uint8Array {
  if (typeof body === 'string' || body instanceof Uint8Array) return body;
  return body === undefined ? '' : JSON.stringify(body);
}

function within(raw: string | Uint8Array, limit: number): RequestBody {
  const bytes = typeof raw === 'string' ? Buffer.from(raw) : raw;
  return bytes.length > limit ? 'too_large' : bytes;
}

/** For `express.json({ verify: keepRawBody })` and its siblings: keeps the bytes for the comparison. */
export function keepRawBody(request: IncomingMessage, _response: unknown, raw: Buffer): void {
  (request as { rawBody?: Buffer }).rawBody = raw;
}
