import type { ServerResponse } from 'node:http';
import { type Captured, type HttpAnswer, NO_BYTES } from '../answer.ts';
import type { Exchange } from '../exchange.ts';
import type { HeaderList } from '../header-list.ts';
import type { IdempotencyContext } from '../idempotency-context.ts';
import type { HttpSettings } from '../options.ts';
import {
  applyHeaders,
  bytesOf,
  forgetBody,
  hasLeft,
  headersOf,
  sendAnswer,
} from './node-answer.ts';
import {
  type Done,
  isHeadWrapped,
  type Methods,
  methodsOf,
  type ResponseWatcher,
  takeAll,
  takeHead,
  watchResponse,
} from './response-watch.ts';

type Rules = Pick<HttpSettings<never>, 'maxKeptBytes' | 'streams' | 'abandonAfterMs'>;

/**
 * A handler that answers on Node's own response, watched at `writeHead`, `write` and `end`: whatever the framework
 * above does, its bytes come through there.
 *
 *   idle      the handler has not been started
 *   holding   nothing has gone out; the answer may yet be kept whole
 *   passing   the body goes out as it comes: too large, or a stream
 *   copying   the same, with a copy made, where streams are kept
 *   ended     the handler is done; the last bytes wait for the record
 *   over      nothing is watched any more
 *
 * What was mounted before us lies below: it sees an answer when it goes out, an original or a replay alike. What was
 * mounted after us lies above: what it makes of an answer is what is kept.
 */
export class NodeExchange implements Exchange, ResponseWatcher {
  readonly #response: ServerResponse;
  readonly #rules: Rules;
  readonly #begin: (context: IdempotencyContext | null) => void;
  #state: 'idle' | 'holding' | 'passing' | 'copying' | 'ended' | 'over' = 'idle';
  #below: Methods | null = null;
  #chunks: Buffer[] = [];
  #length = 0;
  #status = 0;
  /** Of an answer that is copied. */
  #headers: HeaderList | null = null;
  #why: 'too_large' | 'stream' = 'stream';
  #last: Buffer | null = null;
  #lastDone: Done | undefined;
  /** Those above have written the head. */
  #isBegun = false;
  /** Nothing has been given to those below. */
  #isHeld = false;
  #marked = false;
  #keptUntil: string | null = null;
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
    this.#below = methodsOf(this.#response);
    this.#state = 'holding';
    this.#isHeld = true;
    this.#marked = context !== null;
    watchResponse(this.#response, this);
    return new Promise((resolve) => {
      this.#report = resolve;
      this.#begin(context);
    });
  }

  kept(until: string): void {
    this.#keptUntil = until;
  }

  /** Lets the handler's last bytes go, or sends `instead`, unless something has gone out already. */
  finish(instead: HttpAnswer | null): void {
    const response = this.#response;
    this.stopWatching();
    if (this.hasRun) takeAll(response);
    if (instead !== null && !response.headersSent) {
      if (this.hasRun) forgetBody(response);
      sendAnswer(response, instead);
      return;
    }
    // Someone below may have answered in the meantime: a time limit of its own, for one.
    if (this.#below === null || response.writableEnded) return;
    if (this.#status !== 0) response.statusCode = this.#status;
    this.#mark();
    this.#below.end.call(response, this.#last, undefined as never, this.#lastDone);
  }

  /** The answer will be found elsewhere: from here on the response is as it was. */
  stopWatching(): void {
    this.#state = 'over';
    this.#isHeld = false;
  }

  get below(): Methods {
    return this.#below!;
  }

  /** The handler has answered, and the answer stands, whatever is done to the response until it goes out. */
  get isSealed(): boolean {
    return this.#isHeld && this.#state === 'ended';
  }

  get isHeaded(): boolean {
    return this.#isHeld && this.#isBegun;
  }

  /** The handler has been started. */
  get hasRun(): boolean {
    return this.#below !== null;
  }

  /** The handler has begun to answer on the response itself. */
  get hasBegun(): boolean {
    return this.#isBegun;
  }

  writeHead(status: number, rest: readonly unknown[]): void {
    if (!this.#isHeld) {
      const { writeHead } = this.below;
      (writeHead as (...all: unknown[]) => unknown).call(this.#response, status, ...rest);
    } else if (this.#state === 'holding') {
      assertStatus(status);
      const [first, second] = rest;
      if (typeof first === 'string') this.#response.statusMessage = first;
      this.#response.statusCode = status;
      applyHeaders(this.#response, typeof first === 'string' ? second : (first ?? second));
      this.#isBegun = true;
    }
  }

  write(chunk: unknown, encoding: BufferEncoding | undefined, done: Done | undefined): boolean {
    if (this.#state === 'over' || this.#state === 'passing') {
      return this.below.write.call(this.#response, chunk, encoding as BufferEncoding, done);
    }
    if (this.#state === 'ended') {
      if (done !== undefined) process.nextTick(done, new Error('write after end'));
      return false;
    }
    // A copy: the caller may use its buffer again as soon as `done` is called.
    const bytes = typeof chunk === 'string' ? bytesOf(chunk, encoding) : copyOf(chunk);
    this.#chunks.push(bytes);
    this.#length += bytes.length;
    const isTooLong = this.#length > this.#rules.maxKeptBytes;
    if (this.#state === 'copying') {
      if (isTooLong) this.#pass('too_large');
      return this.below.write.call(this.#response, bytes, undefined as never, done);
    }
    if (done !== undefined) process.nextTick(done);
    if (this.#chunks.length === 1) this.#judge();
    else if (isTooLong) this.#pass('too_large');
    return true;
  }

  end(chunk: unknown, encoding: BufferEncoding | undefined, done: Done | undefined): void {
    if (this.#state === 'ended') {
      if (done !== undefined) this.#response.once('finish', done);
      return;
    }
    if (this.#state === 'over') {
      this.below.end.call(this.#response, chunk, encoding as BufferEncoding, done);
      return;
    }
    const last = chunk ? bytesOf(chunk, encoding) : null;
    if (this.#state === 'holding') assertStatus(this.#response.statusCode);
    this.#length += last?.length ?? 0;
    this.#beginHead();
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
    const headers = this.#headers ?? headersOf(this.#response);
    this.#report({ kind: 'whole', status, headers, body: body ?? NO_BYTES });
  }

  flushHeaders(): void {
    if (this.#state === 'ended') return;
    if (this.#state === 'holding') this.#pass('stream');
    this.below.flushHeaders.call(this.#response);
  }

  /** The handler gives its answer up. */
  destroy(error: Error | undefined): void {
    if (this.#state !== 'ended' && this.#state !== 'over') {
      const { statusCode: status } = this.#response;
      this.#state = 'ended';
      this.#report({ kind: 'broken', status });
    }
    this.below.destroy.call(this.#response, error);
  }

  /** The connection is closed. The effect goes on; only an answer being sent is cut off. */
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
   * At the first bytes of a body. A declared length is trusted. Without one, a body that ends within
   * this turn of the event loop is whole, and one that does not is a stream.
   */
  #judge(): void {
    this.#beginHead();
    const limit = this.#rules.maxKeptBytes;
    const declared = Number(this.#response.getHeader('content-length') ?? Number.NaN);
    if (declared > limit || this.#length > limit) this.#pass('too_large');
    else if (declared <= limit) return;
    else setImmediate(passIfOpen, this);
  }

  /** Node writes the head at the first bytes; those above add to it then, and what they add belongs to the answer. */
  #beginHead(): void {
    if (this.#isBegun) return;
    const response = this.#response;
    if (isHeadWrapped(response)) response.writeHead(response.statusCode);
    this.#isBegun = true;
  }

  #pass(why: 'too_large' | 'stream'): void {
    this.#beginHead();
    const copying = why === 'stream' && this.#rules.streams === 'keep';
    if (this.#state !== 'passing') this.#why = why;
    this.#state = copying ? 'copying' : 'passing';
    const held = this.#chunks;
    if (!copying) this.#chunks = [];
    if (!this.#isHeld) return;
    // What those below add to the head is not the handler's.
    if (copying) this.#headers = headersOf(this.#response);
    this.#isHeld = false;
    takeHead(this.#response);
    this.#mark();
    for (const chunk of held) this.below.write.call(this.#response, chunk, undefined as never);
  }

  /** As late as can be: error handlers drop the headers that were set before them. */
  #mark(): void {
    if (!this.#marked || this.#response.headersSent) return;
    this.#response.setHeader('idempotency-replayed', 'false');
    if (this.#keptUntil !== null) {
      this.#response.setHeader('idempotency-kept-until', this.#keptUntil);
    }
  }

  #join(last: Buffer | null): Buffer | null {
    if (this.#chunks.length === 0) return last;
    const all = last === null ? this.#chunks : [...this.#chunks, last];
    return all.length === 1 ? all[0]! : Buffer.concat(all);
  }
}

/** Throws where Node would: later nothing would catch it. */
function assertStatus(status: number): void {
  if (status >= 100 && status <= 999) return;
  const error = new RangeError(`Invalid status code: ${status}`);
  throw Object.assign(error, { code: 'ERR_HTTP_INVALID_STATUS_CODE' });
}

function passIfOpen(exchange: NodeExchange): void {
  exchange.passIfOpen();
}

function copyOf(chunk: unknown): Buffer {
  return Buffer.from(bytesOf(chunk, undefined));
}

function ignore(): void {}
