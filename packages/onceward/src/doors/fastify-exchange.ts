import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify';
import {
  type Admission,
  BodyTap,
  type Captured,
  type Exchange,
  type HttpAnswer,
  type HttpGuard,
  hasLeft,
  type IdempotencyContext,
  inspectBody,
  NO_BYTES,
  type RequestBody,
  skipRest,
  TextAnswer,
} from '../http/index.ts';

type Payload = unknown;
type SendDone = (error: Error | null, payload?: Payload) => void;

type Send = (instead: HttpAnswer | null) => void;

/**
 * One request between `preHandler`, where it claims, and `onSend`, where its answer waits for the record.
 *
 *   arrived    the handler has not been started
 *   replaced   it will not be: a replay or a refusal goes out
 *   running    the handler runs and has not answered
 *   reading    it has answered with a stream, which is being read
 *   holding    its answer waits for the record
 *   settled    the record is settled, and the handler has yet to answer: a transaction may end before its handler
 *   over       the answer is being sent, or is the framework's own
 */
export class FastifyExchange implements Exchange {
  readonly #guard: HttpGuard<FastifyRequest>;
  readonly #admission: Admission<FastifyRequest>;
  readonly #tap: BodyTap;
  #state: 'arrived' | 'replaced' | 'running' | 'reading' | 'holding' | 'settled' | 'over' =
    'arrived';
  #reply: FastifyReply | null = null;
  #begin: HookHandlerDoneFunction | null = null;
  #report: (captured: Captured) => void = ignore;
  /** While holding. */
  #send: Send = ignore;
  /** What goes out in place of the handler's answer. */
  #instead: HttpAnswer | null = null;
  #protecting: Promise<unknown> | null = null;

  constructor(guard: HttpGuard<FastifyRequest>, admission: Admission<FastifyRequest>) {
    this.#guard = guard;
    this.#admission = admission;
    this.#tap = new BodyTap(admission.facts.request.raw, guard.settings.maxBodyBytes);
  }

  start(reply: FastifyReply, done: HookHandlerDoneFunction): void {
    this.#reply = reply;
    this.#begin = done;
    if (this.#admission.refusal !== null) {
      this.#replace(reply, this.#admission.refusal);
      return;
    }
    const body = this.#tap.whole();
    this.#protecting =
      body instanceof Promise ? body.then((all) => this.#protect(all)) : this.#protect(body);
  }

  #protect(body: RequestBody): Promise<void> {
    if (body === 'aborted') return Promise.resolve();
    if (body === 'too_large') skipRest(this.#admission.facts.request.raw, this.#reply!.raw);
    return this.#guard.protect(this.#admission, body, this).then(
      (instead) => {
        try {
          this.#finish(instead);
        } catch (error) {
          this.#fail(error as Error);
        }
      },
      (error: Error) => this.#fail(error),
    );
  }

  hasLeft(): boolean {
    return this.#reply !== null && hasLeft(this.#reply.raw);
  }

  run(context: IdempotencyContext | null): Promise<Captured> {
    const reply = this.#reply!;
    this.#state = 'running';
    if (context !== null) reply.header('idempotency-replayed', 'false');
    return new Promise((resolve) => {
      this.#report = resolve;
      reply.raw.on('close', () => this.#closed());
      this.#begin!();
    });
  }

  kept(until: string): void {
    const reply = this.#reply;
    if (reply !== null && !reply.raw.headersSent) reply.header('idempotency-kept-until', until);
  }

  /** In `onSend`: takes note of the answer and holds it back until the record is settled. */
  capture(reply: FastifyReply, payload: Payload, done: SendDone): void {
    if (this.#state === 'running' || this.#state === 'settled') {
      if (isWhole(payload)) this.#captureWhole(reply, payload, done);
      else this.#captureStream(reply, payload, done);
      return;
    }
    if (this.#state === 'replaced') dropGuessedType(reply, this.#instead!);
    done(null, payload);
  }

  #captureWhole(
    reply: FastifyReply,
    payload: string | Uint8Array | null | undefined,
    done: SendDone,
  ): void {
    const { statusCode: status } = reply;
    this.#hold(reply, payload, done);
    if (payload && isLonger(payload, this.#guard.settings.maxKeptBytes)) {
      this.#report({ kind: 'passed', status, why: 'too_large' });
      return;
    }
    const headers = headersOf(reply);
    if (typeof payload === 'string') this.#report(new TextAnswer(status, headers, payload));
    else this.#report({ kind: 'whole', status, headers, body: payload ?? NO_BYTES });
  }

  #captureStream(reply: FastifyReply, payload: Payload, done: SendDone): void {
    const report = this.#report;
    if (this.#state === 'running') this.#state = 'reading';
    const body = openBody(reply, payload);
    const open = { status: reply.statusCode, headers: headersOf(reply), body };
    const watch = { report, settled: () => this.#protecting ?? Promise.resolve() };
    inspectBody(open, this.#guard.settings, watch).then(
      (outgoing) => {
        if (outgoing.kind === 'whole') {
          this.#hold(reply, outgoing.answer.body, done);
          return;
        }
        this.#state = 'over';
        done(null, Readable.from(outgoing.body, { objectMode: false }));
      },
      (error: Error) => {
        this.#state = 'over';
        report({ kind: 'broken', status: 500 });
        done(error);
      },
    );
  }

  #hold(reply: FastifyReply, payload: Payload, done: SendDone): void {
    const send: Send = (instead) =>
      done(null, instead === null ? payload : withAnswer(reply, instead));
    if (this.#state === 'settled') {
      this.#state = 'over';
      send(this.#instead);
      return;
    }
    this.#state = 'holding';
    this.#send = send;
  }

  #finish(instead: HttpAnswer | null): void {
    if (this.#state === 'arrived' && instead !== null) this.#replace(this.#reply!, instead);
    else this.#settle(instead);
    this.#letGo();
  }

  /** Before the handler ran, the error is the framework's to answer; after it, the caller has the answer. */
  #fail(error: Error): void {
    if (this.#state === 'arrived') {
      this.#state = 'over';
      this.#begin!(error);
    } else {
      this.#settle(null);
    }
  }

  #settle(instead: HttpAnswer | null): void {
    if (this.#state === 'holding') {
      this.#state = 'over';
      this.#send(instead);
    } else if (this.#state === 'running' || this.#state === 'reading') {
      this.#state = 'settled';
      this.#instead = instead;
    }
  }

  #replace(reply: FastifyReply, answer: HttpAnswer): void {
    this.#state = 'replaced';
    this.#instead = answer;
    const body = withAnswer(reply, answer);
    reply.send(body.length === 0 ? undefined : body);
  }

  /**
   * What survives two scavenges is promoted to the old generation. One promoted exchange would promote the next, and
   * that one the next, if they kept references to what they are done with.
   */
  #letGo(): void {
    this.#reply = null;
    this.#begin = null;
    this.#send = ignore;
    this.#protecting = null;
  }

  #closed(): void {
    const reply = this.#reply;
    if (this.#state !== 'running' || reply === null) return;
    if (reply.sent) {
      // The handler took the response over and has ended it itself.
      this.#state = 'over';
      this.#report({ kind: 'passed', status: reply.raw.statusCode, why: 'stream' });
    } else {
      const { abandonAfterMs } = this.#guard.settings;
      setTimeout(() => this.#report({ kind: 'abandoned' }), abandonAfterMs).unref();
    }
  }
}

function ignore(): void {}

/** Not to be read piece by piece. */
function isWhole(payload: Payload): payload is string | Uint8Array | null | undefined {
  return typeof payload === 'string' || payload instanceof Uint8Array || payload == null;
}

/** UTF-8 has at most three bytes for a UTF-16 code unit, so that most texts need not be counted. */
function isLonger(payload: string | Uint8Array, limit: number): boolean {
  return payload.length * 3 > limit && Buffer.byteLength(payload) > limit;
}

function openBody(reply: FastifyReply, payload: Payload): AsyncIterable<Uint8Array | string> {
  let source = payload;
  if (payload instanceof Response) {
    reply.code(payload.status);
    for (const [name, value] of payload.headers) reply.header(name, value);
    source = payload.body ?? [];
  }
  return source as AsyncIterable<Uint8Array>;
}

function headersOf(reply: FastifyReply): string[] {
  const list: string[] = [];
  const headers = reply.getHeaders();
  for (const name in headers) {
    const value = headers[name];
    if (Array.isArray(value)) for (const one of value) list.push(name, one);
    else if (value !== undefined) list.push(name, String(value));
  }
  return list;
}

/** Puts status and headers of an answer in place and gives its body. */
function withAnswer(reply: FastifyReply, answer: HttpAnswer): Buffer {
  const { status, headers, body } = answer;
  reply.code(status);
  reply.removeHeader('content-length');
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!;
    const value = headers[i + 1]!;
    const before = headers.indexOf(name) < i ? reply.getHeader(name) : undefined;
    reply.header(name, before === undefined ? value : [before, value].flat());
  }
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

/** Fastify names a type for bytes that have none; the original answer had none. */
function dropGuessedType(reply: FastifyReply, answer: HttpAnswer): void {
  if (!answer.headers.includes('content-type')) reply.removeHeader('content-type');
}
