import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { Captured, Exchange, HttpAnswer, IdempotencyContext } from 'onceward/http';
import type { Settings } from '../config/settings.ts';
import type { Metrics } from '../observability/metrics.ts';
import { type AnswerReader, isStream } from './answer-reader.ts';
import { faultAnswer } from './fault-answer.ts';
import { answerHeaders, joinedValue, requestHeaders } from './forwarded-headers.ts';
import { ownAnswer } from './own-answers.ts';
import { declaredLength } from './request-body.ts';
import { failureOf, type Upstream, type UpstreamAnswer } from './upstream.ts';

export interface Forwarded {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: Uint8Array | Readable;
  readonly settings: Pick<Settings, 'upstreamTimeoutSeconds' | 'upstreamUnknown'>;
  readonly maxKeptBytes: number;
  readonly keepStreams: boolean;
}

interface Parts {
  readonly upstream: Upstream;
  readonly reader: AnswerReader;
  readonly metrics: Metrics;
}

type Whole = Extract<Captured, { kind: 'whole' }>;

/**
 * One managed request on its way to the upstream. Once it has been sent it runs to its end, whether or not the client
 * is still there: the effect is the upstream's, and its answer is what a retry will want.
 */
export class GatewayExchange implements Exchange {
  readonly #parts: Parts;
  readonly #forwarded: Forwarded;
  #captured: Captured | null = null;
  #watching = false;
  #release: (() => void) | null = null;

  constructor(parts: Parts, forwarded: Forwarded) {
    this.#parts = parts;
    this.#forwarded = forwarded;
  }

  hasLeft(): boolean {
    return this.#forwarded.response.destroyed;
  }

  async run(context: IdempotencyContext | null): Promise<Captured> {
    this.#watching = context === null;
    try {
      const answer = await this.#send();
      this.#captured = await this.#capture(answer, context);
    } catch (error) {
      this.#captured = this.#afterFault(error, context);
    }
    return this.#captured;
  }

  /** Sends what the upstream answered, or what is to be sent in its place. */
  finish(instead: HttpAnswer | null): void {
    const { response } = this.#forwarded;
    if (response.headersSent) {
      response.end();
      return;
    }
    const answer = instead ?? (this.#captured?.kind === 'whole' ? this.#captured : null);
    if (answer !== null) sendWhole(response, answer, instead === null && !this.#watching);
    else response.destroy();
  }

  /** Gives the room of the answer back as soon as its bytes have gone out. */
  dispose(): void {
    const { response } = this.#forwarded;
    if (this.#release === null) return;
    if (response.closed) this.#release();
    else response.once('close', this.#release);
  }

  #send(): Promise<UpstreamAnswer> {
    const { request, body, settings } = this.#forwarded;
    const length = body instanceof Uint8Array ? body.length : declaredLength(request);
    return this.#parts.upstream.send({
      method: request.method ?? 'POST',
      target: request.url ?? '/',
      headers: requestHeaders(request, length),
      body,
      silenceMs: settings.upstreamTimeoutSeconds * 1_000,
    });
  }

  async #capture(answer: UpstreamAnswer, context: IdempotencyContext | null): Promise<Captured> {
    const { status } = answer;
    const headers = answerHeaders(answer.headers);
    const { maxKeptBytes, keepStreams } = this.#forwarded;
    const declared = Number(joinedValue(headers, 'content-length') ?? Number.NaN);
    const streaming = isStream(headers) && !keepStreams;
    if (streaming || declared > maxKeptBytes) {
      const pieces = answer.body as AsyncIterable<Uint8Array>;
      return this.#pass(status, headers, pieces, streaming ? 'stream' : 'too_large', context);
    }
    const read = await this.#parts.reader.read(answer.body, declared, maxKeptBytes);
    this.#release = read.release;
    if (read.kind === 'over') {
      return this.#pass(status, headers, read.pieces, 'too_large', context);
    }
    return { kind: 'whole', status, headers, body: read.bytes };
  }

  /** Hands the body on as it comes. Its end waits for the record. */
  async #pass(
    status: number,
    headers: readonly string[],
    pieces: AsyncIterable<Uint8Array>,
    why: 'stream' | 'too_large',
    context: IdempotencyContext | null,
  ): Promise<Captured> {
    const { response } = this.#forwarded;
    const marker = context === null ? [] : ['idempotency-replayed', 'false'];
    response.writeHead(status, [...headers, ...marker]);
    response.flushHeaders();
    try {
      for await (const piece of pieces) {
        // Once whoever asked has left, the rest is for nobody: leaving the loop ends the stream.
        if (response.destroyed) break;
        if (!response.write(piece)) await drained(response);
      }
    } catch (error) {
      this.#note(error, context);
      response.destroy();
      return { kind: 'broken', status };
    }
    return { kind: 'passed', status, why };
  }

  #afterFault(error: unknown, context: IdempotencyContext | null): Whole {
    const inDoubt = this.#note(error, context);
    const { fault } = failureOf(error);
    return ownAnswer({ kind: 'whole', ...faultAnswer(fault, inDoubt) });
  }

  /** Counts the fault, and says whether it leaves the operation in doubt. */
  #note(error: unknown, context: IdempotencyContext | null): boolean {
    const { fault } = failureOf(error);
    this.#parts.metrics.countUpstreamFault(fault);
    const unknown = fault !== 'refused' && this.#forwarded.settings.upstreamUnknown === 'in_doubt';
    if (!unknown || context === null) return false;
    context.doubt();
    return true;
  }
}

export function sendWhole(response: ServerResponse, answer: HttpAnswer, mark: boolean): void {
  if (response.destroyed) return;
  const { status, headers, body } = answer;
  const list = headers.filter((_, index, all) => {
    const name = all[index - (index % 2)] ?? '';
    return name.toLowerCase() !== 'content-length';
  });
  if (mark) list.push('idempotency-replayed', 'false');
  if (status !== 204 && status !== 304) list.push('content-length', String(body.length));
  response.writeHead(status, list);
  response.end(body);
}

function drained(response: ServerResponse): Promise<void> {
  if (response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done);
      resolve();
    };
    response.on('drain', done).on('close', done);
  });
}
