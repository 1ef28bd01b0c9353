import type { Attempt, Execution, Operation, Settlement } from '../engine/operation.ts';
import type { EffectKind } from '../engine/policy.ts';
import type { EpochMs } from '../engine/units.ts';
import { REFUSALS } from '../refusals/refusals.ts';
import { type Captured, type HttpAnswer, NO_BYTES } from './answer.ts';
import { HttpEvent, type HttpEventName } from './events.ts';
import type { Exchange } from './exchange.ts';
import { FIRST_SENT_FORM, httpDate, parseHttpDate } from './http-date.ts';
import { IdempotencyContext } from './idempotency-context.ts';
import { turnEnd } from './node/turn-end.ts';
import {
  type HttpOptions,
  type HttpSettings,
  type RouteOptions,
  settleOptions,
} from './options.ts';
import { type ProblemName, problemAnswer } from './problem.ts';
import { answerExecution, executionEvents } from './reply.ts';
import { fingerprint } from './request/fingerprint.ts';
import { judgeKey, type KeyReading, readKey } from './request/key-header.ts';
import { pathOf, type RequestFacts } from './request/request-facts.ts';
import { ScopeMemory } from './scope.ts';
import { isExcluded, isSampled } from './selection.ts';
import { settlementOf } from './settlement.ts';

/** A request that is managed: it has a key, or is refused for the one it should have. */
export interface Admission<Request> {
  readonly facts: RequestFacts<Request>;
  readonly key: string;
  /** The key as the client wrote it. */
  readonly sent: string;
  /** To be sent at once; nothing else happens. */
  readonly refusal: HttpAnswer | null;
  readonly arrivedAt: number;
  readonly firstSentAt: EpochMs | undefined;
  principal: string | undefined;
}

/** Observing runs nothing, so a watcher that was lost may be replaced by the next. */
const TAKE_OVER: EffectKind = { kind: 'external', onLapse: 'take_over' };

const ROLLED_BACK = {
  kind: 'refused',
  reason: 'store_unavailable',
  retry: 'same_key',
  retryAfterMs: 1_000,
} as const satisfies Execution;

/** The handler has answered that it is done, and its transaction was rolled back, as it asked for. */
const UNDONE: Execution = { kind: 'refused', reason: 'rolled_back', retry: 'same_key' };

const LEFT: Execution = { kind: 'refused', reason: 'deadline', retry: 'same_key' };

/**
 * What HTTP idempotency means, for every door:
 *
 *   admit     which requests are managed, and under which key
 *   protect   scope, fingerprint, then the engine: run the handler, or give an answer in its place
 *
 * A door turns its framework's request into facts, runs the handler as an `Exchange`, and sends what it is given.
 */
export class HttpGuard<Request> {
  readonly settings: HttpSettings<Request>;
  readonly #options: HttpOptions<Request>;
  readonly #derived = new WeakMap<object, HttpGuard<Request>>();
  readonly #scopes = new ScopeMemory();

  constructor(options: HttpOptions<Request>) {
    this.#options = options;
    this.settings = settleOptions(options);
  }

  /** This guard with some of its options changed for one route. The same object gives the same guard. */
  derive(changes: RouteOptions<Request>): HttpGuard<Request> {
    let guard = this.#derived.get(changes);
    if (guard === undefined) {
      guard = new HttpGuard<Request>({ ...this.#options, ...changes });
      this.#derived.set(changes, guard);
    }
    return guard;
  }

  /** `null`: the request is none of ours and goes on as if we were not there. */
  admit(facts: RequestFacts<Request>): Admission<Request> | null {
    const { settings } = this;
    if (settings.mode === 'off' || !settings.methods.has(facts.method)) return null;
    if (settings.exclude.length > 0 && isExcluded(settings.exclude, pathOf(facts.target))) {
      return null;
    }
    const reading = this.#readKey(facts);
    if (reading.kind === 'none' && !settings.required) return null;
    if (reading.kind === 'key') {
      if (settings.mode === 'observe' && !isSampled(reading.key, settings.sampleRate)) return null;
      return this.#admitKey(facts, reading);
    }
    const bare = this.#admitted(facts, '', '');
    const refusal = this.#refuseReading(bare, reading);
    return settings.mode === 'observe' ? null : { ...bare, refusal };
  }

  #admitKey(
    facts: RequestFacts<Request>,
    { key, sent }: Extract<KeyReading, { kind: 'key' }>,
  ): Admission<Request> | null {
    const { firstSent } = facts.keyLines;
    if (firstSent === undefined) return this.#admitted(facts, key, sent);
    const firstSentAt = parseHttpDate(firstSent);
    if (firstSentAt !== null) return this.#admitted(facts, key, sent, firstSentAt);
    const bare = this.#admitted(facts, key, sent);
    const event = 'idempotency_request_refused';
    const refusal = this.#refuse(bare, 'first-sent-invalid', event, FIRST_SENT_FORM);
    return this.settings.mode === 'observe' ? null : { ...bare, refusal };
  }

  /** The answer to send instead of the handler's, or `null`: the handler's own may go out. */
  async protect(
    admission: Admission<Request>,
    body: Uint8Array | 'too_large',
    exchange: Exchange,
  ): Promise<HttpAnswer | null> {
    if (this.settings.mode === 'observe') return this.#watch(admission, body, exchange);
    await turnEnd();
    if (body === 'too_large') return this.#refuseLength(admission);
    const principal = this.settings.scopeFrom(admission.facts.request);
    admission.principal = typeof principal === 'string' ? principal : await principal;
    const operation = this.#prepare(admission, body, '');
    if ('status' in operation) return operation;
    const run = new GuardedRun<Request>(this.settings, admission, exchange);
    return this.#conclude(admission, run, await this.#execute(operation, run));
  }

  #conclude(
    admission: Admission<Request>,
    run: GuardedRun<Request>,
    ended: Execution,
  ): HttpAnswer | null {
    const execution = run.left ? LEFT : ended;
    if (execution.kind === 'executed' && execution.keptUntil !== null) {
      run.keep(execution.keptUntil);
    }
    const answer = answerExecution(this.settings.profile, admission, execution);
    if (execution.kind === 'replayed') {
      const { facts, key } = admission;
      facts.attach?.(facts.request, new IdempotencyContext(key, null));
    }
    if (this.settings.log !== null) this.#emitExecution(admission, execution, run.captured, answer);
    return answer;
  }

  /** Runs the handler untouched, and beside it what would have been decided, on records of its own. */
  async #watch(
    admission: Admission<Request>,
    body: Uint8Array | 'too_large',
    exchange: Exchange,
  ): Promise<null> {
    const running = exchange.run(null);
    if (body !== 'too_large') {
      this.#shadow(admission, body, running).catch(() => {
        this.#emit(admission, 'idempotency_request_refused', 500);
      });
    }
    await running;
    return null;
  }

  async #shadow(
    admission: Admission<Request>,
    body: Uint8Array,
    running: Promise<Captured>,
  ): Promise<void> {
    admission.principal = await this.settings.scopeFrom(admission.facts.request);
    const operation = this.#prepare(admission, body, 'observe|');
    if ('status' in operation) return;
    let captured: Captured | null = null;
    const bare = { ...operation, effect: TAKE_OVER, policy: { ...operation.policy, waitMs: 0 } };
    const execution = await this.settings.engine.execute(bare, async (attempt) => {
      captured = await running;
      const seen = captured.kind === 'whole' ? { ...captured, body: NO_BYTES } : captured;
      return settlementOf(this.settings, seen, new IdempotencyContext(admission.key, attempt));
    });
    const answer = answerExecution(this.settings.profile, admission, execution);
    this.#emitExecution(admission, execution, captured, answer);
  }

  #prepare(
    admission: Admission<Request>,
    body: Uint8Array,
    prefix: string,
  ): Operation | HttpAnswer {
    const { settings } = this;
    const { facts, key, principal, firstSentAt } = admission;
    const composed = this.#scopes.compose(principal, facts.method, facts.route);
    const scope = prefix + composed.scope;
    const print = fingerprint(settings.fingerprint, facts, composed.headOf(facts.target), body);
    if (!print.ok) {
      const event = 'idempotency_request_refused';
      return this.#refuse(admission, 'body-not-canonical', event, print.reason);
    }
    const { policy, probe } = settings;
    const effect = settings.effect as EffectKind;
    const operation = { id: { scope, key }, fingerprint: print.value, effect, policy };
    if (probe === null && firstSentAt === undefined) return operation;
    return {
      ...operation,
      ...(probe === null ? {} : { probe }),
      ...(firstSentAt === undefined ? {} : { firstSentAt }),
    };
  }

  #execute(operation: Operation, run: GuardedRun<Request>): Promise<Execution> {
    const { engine, effect } = this.settings;
    if (effect.kind !== 'transaction') {
      return engine.execute(operation, (attempt) => run.start(attempt, undefined));
    }
    return engine
      .executeWithin(operation, effect.transact, (attempt, tx) => run.start(attempt, tx))
      .then((execution) => (run.isUndone(execution) ? UNDONE : execution))
      .catch((cause: unknown) => {
        // The transaction is rolled back, and with it what the handler did: its answer must not go out.
        if (!run.hasBegun) throw cause;
        return { ...ROLLED_BACK, cause };
      });
  }

  #readKey(facts: RequestFacts<Request>): KeyReading {
    const { keyFrom, profile } = this.settings;
    if (keyFrom === null) return readKey(facts.keyLines, profile);
    const sent = keyFrom(facts.request);
    return sent === undefined ? { kind: 'none' } : judgeKey(sent, profile);
  }

  #admitted(
    facts: RequestFacts<Request>,
    key: string,
    sent: string,
    firstSentAt?: EpochMs,
  ): Admission<Request> {
    const arrivedAt = this.settings.log === null ? 0 : performance.now();
    return { facts, key, sent, refusal: null, arrivedAt, firstSentAt, principal: undefined };
  }

  #refuseReading(
    admission: Admission<Request>,
    reading: Exclude<KeyReading, { kind: 'key' }>,
  ): HttpAnswer {
    switch (reading.kind) {
      case 'none': {
        const detail = 'send a key of your own in the Idempotency-Key header';
        return this.#refuse(admission, 'key-missing', 'idempotency_key_missing', detail);
      }
      case 'invalid':
        return this.#refuse(admission, 'key-invalid', 'idempotency_key_invalid', reading.reason);
      case 'conflict':
        return this.#refuse(admission, 'key-conflict', 'idempotency_key_invalid', reading.reason);
    }
  }

  #refuseLength(admission: Admission<Request>): HttpAnswer {
    const limit = this.settings.maxBodyBytes;
    const detail = `the body is longer than ${limit} bytes, the most that is compared here`;
    return this.#refuse(admission, 'body-too-large', 'idempotency_request_refused', detail);
  }

  #refuse(
    admission: Admission<Request>,
    name: ProblemName,
    event: HttpEventName,
    detail: string,
  ): HttpAnswer {
    this.#emit(admission, event, REFUSALS[name].status);
    const { key } = admission;
    return problemAnswer(name, this.settings.profile, key === '' ? { detail } : { detail, key });
  }

  #emitExecution(
    admission: Admission<Request>,
    execution: Execution,
    captured: Captured | null,
    answer: HttpAnswer | null,
  ): void {
    const own = captured !== null && 'status' in captured ? captured.status : 0;
    for (const name of executionEvents(execution, captured)) {
      this.#emit(admission, name, answer?.status ?? own);
    }
  }

  #emit(admission: Admission<Request>, name: HttpEventName, status: number): void {
    const { log, mode } = this.settings;
    if (log === null || mode === 'off') return;
    const { facts, key, principal, arrivedAt } = admission;
    const { method, route } = facts;
    const elapsedMs = performance.now() - arrivedAt;
    const named = key === '' ? undefined : key;
    log(new HttpEvent(name, { method, route, status, mode, elapsedMs, key: named, principal }));
  }
}

/** The effect that the engine runs once: the handler behind the door. */
class GuardedRun<Request> {
  readonly #settings: HttpSettings<Request>;
  readonly #admission: Admission<Request>;
  readonly #exchange: Exchange;
  left = false;
  hasBegun = false;
  captured: Captured | null = null;

  constructor(settings: HttpSettings<Request>, admission: Admission<Request>, exchange: Exchange) {
    this.#settings = settings;
    this.#admission = admission;
    this.#exchange = exchange;
  }

  /** Nothing of the transaction remains, though the handler has called it a success. */
  isUndone(execution: Execution): boolean {
    if (execution.kind !== 'executed' || 'outcome' in execution.settlement) return false;
    const { captured } = this;
    return captured !== null && 'status' in captured && captured.status < 400;
  }

  /** The record has the answer, so it may say so. One that went out as it came is not among those. */
  keep(until: EpochMs): void {
    if (this.captured?.kind === 'whole') this.#exchange.kept(httpDate(until));
  }

  start(attempt: Attempt, transaction: unknown): Promise<Settlement> {
    if (this.#exchange.hasLeft()) {
      this.left = true;
      return Promise.resolve({ as: 'released' });
    }
    this.hasBegun = true;
    const { facts, key } = this.#admission;
    const context = new IdempotencyContext(key, attempt, transaction);
    facts.attach?.(facts.request, context);
    return this.#exchange.run(context).then((captured) => {
      this.captured = captured;
      return settlementOf(this.#settings, captured, context);
    });
  }
}
