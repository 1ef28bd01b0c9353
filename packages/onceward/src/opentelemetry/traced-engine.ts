import { context, type Span, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api';
import { Engine, type EngineOptions } from '../engine/engine.ts';
import type { Effect, Execution, Operation } from '../engine/operation.ts';
import type { Transact, TransactionEffect } from '../engine/run/transaction.ts';
import { maskKey } from '../keys/mask.ts';
import { spanOfAttempt, traceTag } from './trace-tag.ts';

/**
 * An engine with a span for each arrival. The effect runs inside the span of the arrival that claimed. A replay has a
 * span of its own, with a link to the span of the run that it replays, also when that was in another process.
 */
export class TracedEngine extends Engine {
  readonly #tracer: Tracer;

  constructor(options: EngineOptions) {
    super({ ...options, tagAttempt: traceTag });
    this.#tracer = trace.getTracer('onceward');
  }

  override execute(operation: Operation, effect: Effect): Promise<Execution> {
    return this.#inSpan(operation, () => super.execute(operation, effect));
  }

  override executeWithin<Tx>(
    operation: Operation,
    transact: Transact<Tx>,
    effect: TransactionEffect<Tx>,
  ): Promise<Execution> {
    return this.#inSpan(operation, () => super.executeWithin(operation, transact, effect));
  }

  async #inSpan(operation: Operation, run: () => Promise<Execution>): Promise<Execution> {
    const span = this.#tracer.startSpan('onceward.execute');
    if (!span.isRecording()) return run().finally(() => span.end());
    span.setAttribute('onceward.key_hint', maskKey(operation.id.key));
    span.setAttribute('onceward.effect', operation.effect.kind);
    try {
      const execution = await context.with(trace.setSpan(context.active(), span), run);
      describe(span, execution);
      return execution;
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR });
      if (error instanceof Error) span.recordException(error);
      throw error;
    } finally {
      span.end();
    }
  }
}

function describe(span: Span, execution: Execution): void {
  span.setAttribute('onceward.decision', execution.kind);
  switch (execution.kind) {
    case 'executed':
      span.setAttribute('onceward.attempt', execution.attempt);
      span.setAttribute('onceward.settlement', execution.settlement.as);
      return;
    case 'replayed': {
      span.setAttribute('onceward.attempt', execution.attempt);
      span.setAttribute('onceward.replay_count', execution.replayCount);
      const original = spanOfAttempt(execution.owner);
      if (original !== null) span.addLink({ context: original });
      return;
    }
    case 'refused':
      span.setAttribute('onceward.refusal', execution.reason);
      return;
  }
}
