import type { ServerResponse } from 'node:http';
import { type Captured, type HttpAnswer, NO_BYTES } from './answer.ts';
import type { Exchange } from './exchange.ts';
import type { IdempotencyContext } from './idempotency-context.ts';
import { applyHeaders, forgetBody, hasLeft, headersOf, sendAnswer } from './node-answer.ts';
import type { HttpSettings } from './options.ts';
import { type Methods, type ResponseWatcher, watchResponse } from './response-watch.ts';

type Rules = Pick<HttpSettings<never>, 'maxKeptBytes' | 'streams' | 'abandonAfterMs'>;
type Done = (error?: Error | null) => void;

/**
 * A handler that answers on Node's own response, watched at `writeHead`, `write` and `end`: whatever the framework
 * above does, its bytes come through there.
 *
 *   holding   nothing has gone out; the answer may yet be kept whole
 *   passing   the body goes out as it comes: too large, or a stream
 *   copying   the same, with a copy made, where streams are kept
 *   ended     the handler is done; the last bytes wait for the record
 *   over      nothing is watched any more
 *
 * The methods stay in place when it is over, since others may have wrapped them in the meantime.
 */
export class NodeExchange implements Exchange, ResponseWatcher {
  readonly #response: ServerResponse;
  readonly #rules: Rules;
  readonly #begin: (context: IdempotencyContext | null) => void;
  #state: 'idle' | 'holding' | 'passing' | 'copying' | 'ended' | 'over' = 'idle';
  /** The methods as they were found: Node's own, or those of a middleware before this one. */
  #below: Methods | null = null;
  #chunks: Buffer[] = [];
  #length = 0;
  #status = 0;
  #why: 'too_large' | 'stream' = 'stream';
  #last: Buffer | null = null;
  #lastDone: Done | undefined;
  /** The head can no longer be changed, though it may not have been sent. */
  #headed = false;
  #marked = false;
  #report: (captured: Captured) => void = ignore;

  /** `begin` starts the handler. It must not throw: errors are the framework's to answer. */
  constructor(
    response: ServerResponse,
    rules: Rules,
    begin: (context: IdempotencyContext | null) => void,
  ) {
    this.#response = response;
    this.#rules = rules;
    this.#begin = begin;
  }

  hasLeft(): boolean {
    return hasLeft(this.#response);
  }

  run(context: IdempotencyContext | null): Promise<Captured> {
    this.#below = watchResponse(this.#response, this);
    this.#state = 'holding';
    this.#marked = context !== null;
    return new Promise((resolve) => {
      this.#report = resolve;
      this.#begin(context);
    });
  }

  /** Lets the handler's last bytes go, or sends `instead`, unless something has gone out already. */
  finish(instead: HttpAnswer | null): void {
    const response = this.#response;
    const below = this.#below;
    this.stopWatching();
    if (instead !== null && !response.headersSent) {
      if (below !== null) forgetBody(response);
      sendAnswer(response, instead);
    } else {
      if (this.#status !== 0) response.statusCode = this.#status;
      this.#mark();
      below?.end.call(response, this.#last, undefined as never, this.#lastDone);
    }
  }

  /** The answer will be found elsewhere: from here on the response is as it was. */
  stopWatching(): void {
    this.#state = 'over';
    this.#headed = false;
  }

  /** The handler has answered, and the answer stands, whatever is done to the response until it goes out. */
  get isSealed(): boolean {
    return this.#state === 'ended';
  }

  /** The handler has been started. */
  get hasRun(): boolean {
    return this.#below !== null;
  }

  /** The handler has begun to answer on the response itself. */
  get isHeaded(): boolean {
    return this.#headed;
  }

  writeHead(status: number, rest: readonly unknown[]): void {
    if (this.#state !== 'holding' && this.#state !== 'ended') {
      (this.#below!.writeHead as (...all: unknown[]) => unknown).call(
        this.#response,
        status,
        ...rest,
      );
    } else if (this.#state === 'holding') {
      const [first, second] = rest;
      if (typeof first === 'string') this.#response.statusMessage = first;
      this.#response.statusCode = status;
      applyHeaders(this.#response, typeof first === 'string' ? second : (first ?? second));
      this.#headed = true;
    }
  }

  write(chunk: unknown, encoding: BufferEncoding | undefined, done: Done | undefined): boolean {
    if (this.#state === 'ended') return false;
    const below = this.#below!;
    if (!isBytes(chunk) || (this.#state !== 'holding' && this.#state !== 'copying')) {
      return below.write.call(this.#response, chunk, encoding as BufferEncoding, done);
    }
    // A copy: the caller may use its buffer again as soon as `done` is called.
    const bytes = Buffer.from(chunk as string, encoding);
    this.#chunks.push(bytes);
    this.#length += bytes.length;
    const isTooLong = this.#length > this.#rules.maxKeptBytes;
    if (this.#state === 'copying') {
      if (isTooLong) this.#pass('too_large');
      return below.write.call(this.#response, bytes, undefined as never, done);
    }
    if (done !== undefined) process.nextTick(done);
    if (this.#chunks.length === 1) this.#judge();
    else if (isTooLong) this.#pass('too_large');
    return true;
  }

  end(chunk: unknown, encoding: BufferEncoding | undefined, done: Done | undefined): void {
    if (this.#state === 'ended') return;
    if (this.#state === 'over') {
      this.#below!.end.call(this.#response, chunk, encoding as BufferEncoding, done);
      return;
    }
    const last = isBytes(chunk) ? toBuffer(chunk, encoding) : null;
    this.#length += last?.length ?? 0;
    this.#headed = true;
    this.#lastDone = done;
    this.#last = last;
    if (this.#length > this.#rules.maxKeptBytes) this.#pass('too_large');
    const { statusCode: status } = this.#response;
    this.#status = status;
    const before = this.#state;
    this.#state = 'ended';
    if (before === 'passing') {
      this.#report({ kind: 'passed', status, why: this.#why });
      return;
    }
    const body = this.#join(last);
    if (before === 'holding') this.#last = body;
    const headers = headersOf(this.#response);
    this.#report({ kind: 'whole', status, headers, body: body ?? NO_BYTES });
  }

  flushHeaders(): void {
    if (this.#state === 'ended') return;
    if (this.#state === 'holding') this.#pass('stream');
    this.#below!.flushHeaders.call(this.#response);
  }

  /** The handler gives its answer up. */
  destroy(error: Error | undefined): void {
    if (this.#state !== 'ended' && this.#state !== 'over') {
      const { statusCode: status } = this.#response;
      this.#state = 'ended';
      this.#report({ kind: 'broken', status });
    }
    this.#below!.destroy.call(this.#response, error);
  }

  /** The connection is gone. The effect goes on; only an answer that was on its way has come to its end. */
  closed(): void {
    if (this.#state === 'ended' || this.#state === 'over') return;
    if (this.#state !== 'holding') {
      const { statusCode: status } = this.#response;
      this.#state = 'ended';
      this.#report({ kind: 'passed', status, why: 'stream' });
    } else {
      const { abandonAfterMs } = this.#rules;
      setTimeout(() => this.#report({ kind: 'abandoned' }), abandonAfterMs).unref();
    }
  }

  /** A turn of the event loop has passed since the first bytes of a body of no declared length. */
  passIfOpen(): void {
    if (this.#state === 'holding') this.#pass('stream');
  }

  /**
   * At the first bytes of a body. A declared length tells what is to come. Without one, a body that ends within
   * this turn of the event loop is whole, and one that does not is a stream.
   */
  #judge(): void {
    this.#headed = true;
    const limit = this.#rules.maxKeptBytes;
    const declared = Number(this.#response.getHeader('content-length') ?? Number.NaN);
    if (declared > limit || this.#length > limit) this.#pass('too_large');
    else if (declared <= limit) return;
    else setImmediate(passIfOpen, this);
  }

  #pass(why: 'too_large' | 'stream'): void {
    const wasHolding = this.#state === 'holding';
    const copying = why === 'stream' && this.#rules.streams === 'keep';
    if (this.#state !== 'passing') this.#why = why;
    this.#headed = false;
    this.#state = copying ? 'copying' : 'passing';
    const held = this.#chunks;
    if (!copying) this.#chunks = [];
    if (wasHolding) this.#mark();
    this.#headed = true;
    if (!wasHolding) return;
    for (const chunk of held) this.#below!.write.call(this.#response, chunk, undefined as never);
  }

  /** As late as can be: error handlers drop the headers that were set before them. */
  #mark(): void {
    if (!this.#marked || this.#response.headersSent) return;
    this.#response.setHeader('idempotency-replayed', 'false');
  }

  #join(last: Buffer | null): Buffer | null {
    if (this.#chunks.length === 0) return last;
    const all = last === null ? this.#chunks : [...this.#chunks, last];
    return all.length === 1 ? all[0]! : Buffer.concat(all);
  }
}

function passIfOpen(exchange: NodeExchange): void {
  exchange.passIfOpen();
}

function isBytes(chunk: unknown): chunk is string | Uint8Array {
  return typeof chunk === 'string' || chunk instanceof Uint8Array;
}

function toBuffer(chunk: string | Uint8Array, encoding: BufferEncoding | undefined): Buffer {
  if (typeof chunk === 'string') return Buffer.from(chunk, encoding);
  return Buffer.isBuffer(chunk)
    ? chunk
    : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}

function ignore(): void {}
