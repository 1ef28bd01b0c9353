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

/** One request between `preHandler`, where it claims, and `onSend`, where its answer waits for the record. */
export class FastifyExchange implements Exchange {
  readonly #guard: HttpGuard<FastifyRequest>;
  readonly #admission: Admission<FastifyRequest>;
  readonly #tap: BodyTap;
  #reply: FastifyReply | null = null;
  #begin: HookHandlerDoneFunction | null = null;
  #report: ((captured: Captured) => void) | null = null;
  #send: ((instead: HttpAnswer | null) => void) | null = null;
  #protecting: Promise<unknown> | null = null;
  #replay: HttpAnswer | null = null;
  #hasRun = false;
  #isSettled = false;
  #instead: HttpAnswer | null = null;

  constructor(guard: HttpGuard<FastifyRequest>, admission: Admission<FastifyRequest>) {
    this.#guard = guard;
    this.#admission = admission;
    this.#tap = new BodyTap(admission.facts.request.raw, guard.settings.maxBodyBytes);
  }

  start(reply: FastifyReply, done: HookHandlerDoneFunction): void {
    this.#reply = reply;
    this.#begin = done;
    if (this.#admission.refusal !== null) {
      this.#answer(this.#admission.refusal);
      return;
    }
    const body = this.#tap.whole();
    this.#protecting =
      body instanceof Promise ? body.then((all) => this.#protect(all)) : this.#protect(body);
  }

  #protect(body: RequestBody): Promise<void> {
    if (body === 'gone') return Promise.resolve();
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
    this.#hasRun = true;
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
    const report = this.#report;
    if (report === null) {
      if (this.#replay !== null) dropGuessedType(reply, this.#replay);
      done(null, payload);
      return;
    }
    this.#report = null;
    if (!isWhole(payload)) {
      this.#captureStream(reply, payload, report, done);
      return;
    }
    const send = (instead: HttpAnswer | null) =>
      done(null, instead === null ? payload : replace(reply, instead));
    // A transaction may have come to its end before the handler that ran in it.
    if (this.#isSettled) {
      send(this.#instead);
      return;
    }
    this.#send = send;
    const { statusCode: status } = reply;
    if (payload && isLonger(payload, this.#guard.settings.maxKeptBytes)) {
      report({ kind: 'passed', status, why: 'too_large' });
      return;
    }
    const headers = headersOf(reply);
    if (typeof payload === 'string') report(new TextAnswer(status, headers, payload));
    else report({ kind: 'whole', status, headers, body: payload ?? NO_BYTES });
  }

  #captureStream(
    reply: FastifyReply,
    payload: Payload,
    report: (captured: Captured) => void,
    done: SendDone,
  ): void {
    const body = openBody(reply, payload);
    const open = { status: reply.statusCode, headers: headersOf(reply), body };
    const watch = { report, settled: () => this.#protecting ?? Promise.resolve() };
    inspectBody(open, this.#guard.settings, watch).then(
      (outgoing) => {
        if (outgoing.kind === 'passing') {
          done(null, Readable.from(outgoing.body, { objectMode: false }));
          return;
        }
        const whole = outgoing.answer.body;
        const send = (instead: HttpAnswer | null) =>
          done(null, instead === null ? whole : replace(reply, instead));
        if (this.#isSettled) send(this.#instead);
        else this.#send = send;
      },
      (error: Error) => {
        report({ kind: 'broken', status: 500 });
        done(error);
      },
    );
  }

  #finish(instead: HttpAnswer | null): void {
    const send = this.#send;
    this.#isSettled = true;
    this.#instead = instead;
    if (send !== null) send(instead);
    else if (instead !== null && !this.#hasRun) this.#answer(instead);
    this.#letGo();
  }

  /**
   * The collector moves what outlives two of its rounds to where it seldom looks. One exchange that got there would
   * take the next with it, and that one the next, if they went on holding what they are done with.
   */
  #letGo(): void {
    this.#reply = null;
    this.#begin = null;
    this.#send = null;
    this.#protecting = null;
  }

  /** Before the handler ran, the error is the framework's to answer; after it, the caller has the answer. */
  #fail(error: Error): void {
    this.#isSettled = true;
    if (this.#send !== null) this.#send(null);
    else if (!this.#hasRun) this.#begin!(error);
  }

  #answer(answer: HttpAnswer): void {
    const reply = this.#reply!;
    this.#replay = answer;
    const body = replace(reply, answer);
    reply.send(body.length === 0 ? undefined : body);
  }

  #closed(): void {
    const report = this.#report;
    const reply = this.#reply;
    if (report === null || reply === null) return;
    const { raw, sent } = reply;
    if (sent) {
      // The handler took the response over and has ended it itself.
      this.#report = null;
      report({ kind: 'passed', status: raw.statusCode, why: 'stream' });
    } else {
      const { abandonAfterMs } = this.#guard.settings;
      setTimeout(() => report({ kind: 'abandoned' }), abandonAfterMs).unref();
    }
  }
}

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
function replace(reply: FastifyReply, answer: HttpAnswer): Buffer {
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
