import { Readable } from 'node:stream';
import type { ParameterizedContext } from 'koa';
import {
  type Captured,
  type Exchange,
  type HttpAnswer,
  type HttpSettings,
  headersOf,
  type IdempotencyContext,
  inspectBody,
  isBodiless,
  NodeExchange,
  type OpenAnswer,
} from '../http/index.ts';

type Rules = Pick<HttpSettings<never>, 'maxKeptBytes' | 'streams' | 'abandonAfterMs'>;

/**
 * One request in Koa. What the middleware behind leaves in `ctx.body` is the answer, and Koa sends it
 * when we return. What they throw, and what they write past Koa, is seen on Node's response.
 */
export class KoaExchange implements Exchange {
  readonly #ctx: ParameterizedContext;
  readonly #rules: Rules;
  readonly #next: () => Promise<unknown>;
  readonly #node: NodeExchange;
  #return: () => void = ignore;
  #throw: (error: unknown) => void = ignore;
  #report: (captured: Captured) => void = ignore;
  #protecting: Promise<unknown> = Promise.resolve();
  #isInContext = false;

  constructor(ctx: ParameterizedContext, rules: Rules, next: () => Promise<unknown>) {
    this.#ctx = ctx;
    this.#rules = rules;
    this.#next = next;
    this.#node = new NodeExchange(ctx.res, rules, (context) => this.#begin(context));
  }

  /** Ends when Koa may go on: with the answer in place, or as soon as it must write one itself. */
  serve(protect: () => Promise<HttpAnswer | null>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#return = resolve;
      this.#throw = reject;
      this.#protecting = protect().then(
        (instead) => this.#finish(instead),
        (error) => (this.#node.hasRun ? this.#finish(null) : reject(error)),
      );
    });
  }

  hasLeft(): boolean {
    return this.#node.hasLeft();
  }

  run(context: IdempotencyContext | null): Promise<Captured> {
    return new Promise((resolve) => {
      this.#report = resolve;
      void this.#node.run(context).then(resolve);
    });
  }

  kept(until: string): void {
    this.#node.kept(until);
    const ctx = this.#ctx;
    if (this.#isInContext && !ctx.res.headersSent) ctx.set('idempotency-kept-until', until);
  }

  #begin(context: IdempotencyContext | null): void {
    this.#next().then(
      () => this.#captureBody(context !== null),
      (error: unknown) => this.#throw(error),
    );
  }

  #captureBody(isMarked: boolean): void {
    const ctx = this.#ctx;
    const body: unknown = ctx.body;
    const isPastKoa = ctx.respond === false || this.#node.hasBegun;
    if (isPastKoa || body === null || body === undefined) {
      this.#return();
      return;
    }
    this.#isInContext = true;
    this.#node.stopWatching();
    const headers = headersOf(ctx.res);
    if (isMarked) ctx.set('idempotency-replayed', 'false');
    const { status } = ctx;
    const source = sourceOf(body);
    if (source !== null) {
      this.#captureStream({ status, headers, body: source });
      return;
    }
    const bytes = toBytes(body);
    if (bytes.length > this.#rules.maxKeptBytes) {
      this.#report({ kind: 'passed', status, why: 'too_large' });
    } else {
      this.#report({ kind: 'whole', status, headers, body: bytes });
    }
  }

  #captureStream(open: OpenAnswer): void {
    const ctx = this.#ctx;
    const declared = ctx.res.getHeader('content-length');
    const watch = { report: this.#report, settled: () => this.#protecting };
    inspectBody(open, this.#rules, watch).then(
      (outgoing) => {
        if (outgoing.kind === 'whole') {
          ctx.body = Buffer.from(outgoing.answer.body);
          return;
        }
        const readable = Readable.from(outgoing.body, { objectMode: false });
        // Koa 2 leaves a response open whose stream has broken off.
        readable.once('error', () => ctx.res.destroy());
        ctx.body = readable;
        if (declared !== undefined) ctx.set('content-length', String(declared));
        this.#return();
      },
      (error: unknown) => {
        this.#report({ kind: 'broken', status: 500 });
        this.#throw(error);
      },
    );
  }

  #finish(instead: HttpAnswer | null): void {
    if (this.#node.hasRun && !this.#isInContext) this.#node.finish(instead);
    else if (instead !== null && !this.#ctx.res.headersSent) setAnswer(this.#ctx, instead);
    this.#return();
  }
}

/** Puts an answer where Koa and the middleware before us read it. */
export function setAnswer(ctx: ParameterizedContext, answer: HttpAnswer): void {
  const { status, headers, body } = answer;
  const grouped = new Map<string, string[]>();
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!;
    grouped.set(name, [...(grouped.get(name) ?? []), headers[i + 1]!]);
  }
  ctx.body = isBodiless(status) ? null : Buffer.from(body);
  if (!grouped.has('content-type')) ctx.remove('content-type');
  for (const [name, values] of grouped) ctx.set(name, values.length === 1 ? values[0]! : values);
  ctx.status = status;
}

/** What is read piece by piece; `null`: the body is all there. */
function sourceOf(body: unknown): AsyncIterable<Uint8Array> | null {
  if (body instanceof Response)
    return (body.body ?? Readable.from([])) as AsyncIterable<Uint8Array>;
  if (body instanceof Blob) return body.stream() as unknown as AsyncIterable<Uint8Array>;
  const isIterable = typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
  return isIterable ? (body as AsyncIterable<Uint8Array>) : null;
}

function toBytes(body: unknown): Uint8Array {
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}

function ignore(): void {}
