import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { NO_BYTES } from './answer.ts';

export type RequestBody =
  | Uint8Array
  | 'too_large'
  /** The client hung up before it had sent everything. */
  | 'gone';

/**
 * Sees the bytes of a request without consuming them. It looks on while somebody reads them; what nobody has read when
 * the whole is asked for, it notes as Node pushes it into the stream, and whoever reads it afterwards finds all of it.
 * Put it there before the first asynchronous step where the body may be consumed in between.
 *
 * To look on costs little. A `push` of its own on every request took 2 to 5 µs, since it changes the shape of what Node
 * handles in its hottest code.
 */
export class BodyTap {
  readonly #message: Readable & Pick<IncomingMessage, 'complete' | 'headers'>;
  readonly #limit: number;
  #first: Uint8Array | null = null;
  #more: Uint8Array[] | null = null;
  #length = 0;
  #state: 'open' | 'whole' | 'too_large' | 'gone' = 'open';
  #look: ((chunk: Uint8Array | string) => void) | null = null;
  #wake: (() => void) | null = null;

  constructor(message: IncomingMessage, limit: number) {
    this.#message = message;
    this.#limit = limit;
    if (!hasBody(message)) this.#state = 'whole';
    else if (Number(message.headers['content-length'] ?? 0) > limit) this.#state = 'too_large';
    else this.#lookOn();
  }

  /** All of the body, once. Waits for the rest of it, which is held in the stream meanwhile. */
  whole(): RequestBody | Promise<RequestBody> {
    const message = this.#message;
    if (this.#state === 'open') {
      if (message.readableEnded) this.#end('whole');
      else if (this.#look !== null && !this.#isBeingRead()) this.#takeOver();
    }
    if (this.#state !== 'open') return this.#result();
    return new Promise((resolve) => {
      this.#wake = () => resolve(this.#result());
      // The stream may have stopped its socket when its buffer was full; `read` would leave it so.
      message._read(0);
      message.once('end', () => this.#end('whole'));
      message.once('close', () => this.#end('gone'));
    });
  }

  #result(): RequestBody {
    if (this.#state !== 'whole') return this.#state as 'too_large' | 'gone';
    const first = this.#first ?? NO_BYTES;
    const more = this.#more;
    this.#letGo();
    return more === null ? first : Buffer.concat([first, ...more]);
  }

  #lookOn(): void {
    const message = this.#message;
    this.#look = (chunk) => {
      if (this.#state !== 'open') return;
      this.#note(chunk, message.readableEncoding);
      // The stream is empty, and what comes next may not be read in time. A decoder may hold half a character back.
      if (typeof chunk === 'string' || message.complete || message.readableLength > 0) return;
      this.#install();
    };
    // Not with `on` of a stream, which would set it flowing.
    EventEmitter.prototype.on.call(message, 'data', this.#look);
  }

  #isBeingRead(): boolean {
    const message = this.#message;
    return message.listenerCount('data') > 1 || message.listenerCount('readable') > 0;
  }

  /** What has come is in the stream's buffer: taken out, looked at and put back. */
  #takeOver(): void {
    const message = this.#message;
    this.#install();
    if (message.readableLength > 0) {
      const chunk = message.read() as Uint8Array | string | null;
      if (chunk !== null) {
        message.unshift(chunk);
        this.#note(chunk, message.readableEncoding);
      }
    }
    if (message.complete) this.#end('whole');
  }

  #install(): void {
    const message = this.#message;
    message.removeListener('data', this.#look!);
    this.#look = null;
    if (message.complete) return;
    const push = message.push;
    message.push = (chunk: Uint8Array | string | null, encoding?: BufferEncoding): boolean => {
      if (this.#state === 'open') {
        if (chunk === null) this.#end('whole');
        else this.#note(chunk, encoding);
      }
      const wantsMore = push.call(message, chunk, encoding);
      // While someone waits for the whole, a full buffer must not stop the socket: the limit is ours.
      return wantsMore || (this.#state === 'open' && this.#wake !== null);
    };
  }

  #note(chunk: Uint8Array | string, encoding?: BufferEncoding | null): void {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding ?? 'utf8') : chunk;
    this.#length += bytes.length;
    if (this.#length > this.#limit) {
      this.#end('too_large');
    } else if (this.#first === null) {
      this.#first = bytes;
    } else {
      this.#more ??= [];
      this.#more.push(bytes);
    }
  }

  #end(state: 'whole' | 'too_large' | 'gone'): void {
    if (this.#state !== 'open') return;
    this.#state = state;
    if (state !== 'whole') this.#letGo();
    this.#wake?.();
  }

  #letGo(): void {
    this.#first = null;
    this.#more = null;
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
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
  if (message.readableDidRead || body !== undefined) return within(spell(body), limit);
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
