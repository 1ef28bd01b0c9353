import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Effect, Operation } from '../engine/operation.ts';
import { profiles } from '../engine/profiles.ts';
import { memoryStore } from '../stores/memory/index.ts';
import { createTracedOnceward, spanOfAttempt } from './index.ts';

const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(provider);
});
beforeEach(() => exporter.reset());
afterAll(async () => {
  await provider.shutdown();
  trace.disable();
  context.disable();
});

const operation: Operation = {
  id: { scope: 'shop', key: 'order-17-of-a-customer' },
  fingerprint: 'f',
  effect: { kind: 'external', onLapse: 'in_doubt' },
  policy: profiles.http,
};
const outcome = { contentType: 'text/plain', bytes: Buffer.from('done') };
const effect: Effect = async () => ({ as: 'committed', outcome });

function spans() {
  return exporter.getFinishedSpans();
}

describe('[U6] a traced engine', () => {
  it('links a replay to the span of the run that it replays', async () => {
    const engine = createTracedOnceward({ store: memoryStore(), sweep: false });
    await engine.execute(operation, effect);
    await engine.execute(operation, effect);
    const [run, replay] = spans();
    expect(run?.attributes).toMatchObject({
      'onceward.decision': 'executed',
      'onceward.settlement': 'committed',
    });
    expect(replay?.attributes).toMatchObject({
      'onceward.decision': 'replayed',
      'onceward.replay_count': 1,
    });
    expect(replay?.spanContext().traceId).not.toBe(run?.spanContext().traceId);
    expect(replay?.links.map((link) => link.context)).toMatchObject([
      { traceId: run?.spanContext().traceId, spanId: run?.spanContext().spanId },
    ]);
  });

  it('links across processes: the name of the run lies in the record', async () => {
    const store = memoryStore();
    const first = createTracedOnceward({ store, sweep: false });
    await first.execute(operation, effect);
    const second = createTracedOnceward({ store, sweep: false });
    await second.execute(operation, effect);
    const [run, replay] = spans();
    expect(replay?.links[0]?.context.spanId).toBe(run?.spanContext().spanId);
  });

  it('runs the effect inside its span', async () => {
    const engine = createTracedOnceward({ store: memoryStore(), sweep: false });
    await engine.execute(operation, async () => {
      trace.getTracer('app').startSpan('charge').end();
      return { as: 'committed', outcome };
    });
    const [charge, run] = spans();
    expect(charge?.name).toBe('charge');
    expect(charge?.parentSpanContext?.spanId).toBe(run?.spanContext().spanId);
  });

  it('reports refusals and errors, and never a whole key', async () => {
    const engine = createTracedOnceward({ store: memoryStore(), sweep: false });
    const thrown = engine.execute(operation, async () => {
      throw new Error('no money');
    });
    await expect(thrown).rejects.toThrow('no money');
    await engine.execute(operation, effect);
    await engine.execute({ ...operation, fingerprint: 'other' }, effect);
    const [failed, , refused] = spans();
    expect(failed?.events[0]?.attributes).toMatchObject({ 'exception.message': 'no money' });
    expect(refused?.attributes).toMatchObject({ 'onceward.refusal': 'mismatch' });
    const told = spans().map(({ attributes }) => JSON.stringify(attributes));
    expect(told.join('')).not.toContain(operation.id.key);
  });

  it('works as any other where nobody traces', async () => {
    trace.disable();
    const engine = createTracedOnceward({ store: memoryStore(), sweep: false });
    await engine.execute(operation, effect);
    const replay = await engine.execute(operation, effect);
    expect(replay.kind === 'replayed' && spanOfAttempt(replay.owner)).toBeNull();
    trace.setGlobalTracerProvider(provider);
  });
});
