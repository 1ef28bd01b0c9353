import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import {
  type Captured,
  type Exchange,
  type HttpAnswer,
  type IdempotencyContext,
  NO_BYTES,
} from 'onceward/http';
import type { Visit } from '../api/visit.ts';
import type { Settings } from '../config/settings.ts';
import type { Metrics } from '../observability/metrics.ts';
import {
  isStream,
  OpenEndedAnswer,
  passOn,
  type ReadAnswer,
  readDeclared,
} from './answer-reader.ts';
import type { BufferBudget, Share } from './buffer-budget.ts';
import { type AnswerHead, OutgoingAnswer, sendFirst, sendWhole } from './client-answer.ts';
import { faultAnswer } from './fault-answer.ts';
import { answerHeaders, joinedValue, requestHeaders } from './forwarded-headers.ts';
import { ownAnswer } from './own-answers.ts';
import { declaredLength } from './request-body.ts';
import { failureOf, type Upstream, type UpstreamAnswer } from './upstream.ts';

export interface Forwarded {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly visit: Visit;
  readonly target: string;
  readonly body: Uint8Array | Readable;
  readonly settings: Pick<Settings, 'upstreamTimeoutSeconds' | 'upstreamUnknown' | 'profile'>;
  readonly maxKeptBytes: number;
  readonly keepStreams: boolean;
}

export interface ExchangeParts {
  readonly upstream: Upstream;
  readonly answerBudget: BufferBudget;
  readonly metrics: Metrics;
}

type Whole = Extract<Captured, { kind: 'whole' }>;

/**
 * One managed request to the upstream. Once it has been sent it runs to its end, whether or not the client
 * is still there: the effect is the upstream's, and its answer is what a retry will want.
 */
export class GatewayExchange implements Exchange {
  readonly #parts: ExchangeParts;
  readonly #forwarded: Forwarded;
  #captured: Captured | null = null;
  #watching = false;
  #keptUntil: string | null = null;
  #share: Share | null = null;

  constructor(parts: ExchangeParts, forwarded: Forwarded) {
    this.#parts = parts;
    this.#forwarded = forwarded;
  }

  hasLeft(): boolean {
    return this.#forwarded.visit.isOver;
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

  kept(until: string): void {
    this.#keptUntil = until;
  }

  /** Sends what the upstream answered, or what is to be sent in its place. */
  finish(instead: HttpAnswer | null): void {
    const { response } = this.#forwarded;
    if (response.headersSent) {
      response.end();
      return;
    }
    const answer = instead ?? (this.#captured?.kind === 'whole' ? this.#captured : null);
    if (answer === null) response.destroy();
    else if (instead !== null || this.#watching) sendWhole(response, answer);
    else sendFirst(response, answer, this.#keptUntil);
  }

  /** Gives the room of the answer back as soon as its bytes have gone out, or the client has left. */
  dispose(): void {
    const share = this.#share;
    if (share === null) return;
    const { visit, request } = this.#forwarded;
    // The record has the answer by now: a client that does not read it can retry.
    share.giveUp = () => request.socket.destroy();
    visit.whenOver(() => share.release());
  }

  #send(): Promise<UpstreamAnswer> {
    const { request, target, body, settings } = this.#forwarded;
    const length = body instanceof Uint8Array ? body.length : declaredLength(request);
    return this.#parts.upstream.send({
      method: request.method ?? 'POST',
      target,
      headers: requestHeaders(request, length),
      body,
      silenceMs: settings.upstreamTimeoutSeconds * 1_000,
    });
  }

  async #capture(answer: UpstreamAnswer, context: IdempotencyContext | null): Promise<Captured> {
    const { status, body } = answer;
    const headers = answerHeaders(answer.headers);
    if (body === null) return { kind: 'whole', status, headers, body: NO_BYTES };
    try {
      const read = await this.#read(body, { status, headers, mark: context !== null });
      if (read.kind === 'passed') return { ...read, status };
      return { kind: 'whole', status, headers, body: read.bytes };
    } catch (error) {
      this.#share?.release();
      const { response } = this.#forwarded;
      if (!response.headersSent) throw error;
      this.#note(error, context);
      response.destroy();
      return { kind: 'broken', status };
    }
  }

  #read(body: Readable, head: AnswerHead): Promise<ReadAnswer> {
    const { maxKeptBytes, keepStreams, response, visit, settings } = this.#forwarded;
    const patienceMs = settings.upstreamTimeoutSeconds * 1_000;
    const declared = Number(joinedValue(head.headers, 'content-length') ?? Number.NaN);
    if (isStream(head.headers) && !keepStreams) {
      return passOn(body, new OutgoingAnswer(response, visit, head, patienceMs), 'stream');
    }
    if (declared > maxKeptBytes) {
      return passOn(body, new OutgoingAnswer(response, visit, head, patienceMs), 'too_large');
    }
    const share = this.#parts.answerBudget.open();
    this.#share = share;
    if (declared <= maxKeptBytes) return readDeclared(body, declared, share);
    const outgoing = new OutgoingAnswer(response, visit, head, patienceMs);
    return new OpenEndedAnswer(outgoing, share, maxKeptBytes).read(body);
  }

  #afterFault(error: unknown, context: IdempotencyContext | null): Whole {
    const inDoubt = this.#note(error, context);
    const { fault } = failureOf(error);
    const { profile } = this.#forwarded.settings;
    return ownAnswer({ kind: 'whole', ...faultAnswer(fault, inDoubt, profile) });
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
