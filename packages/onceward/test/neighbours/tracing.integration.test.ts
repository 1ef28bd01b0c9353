import { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { context, SpanKind } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { registerInstrumentations } from '@opentelemetry/instrumentation';
import { ExpressInstrumentation } from '@opentelemetry/instrumentation-express';
import { HttpInstrumentation } from '@opentelemetry/instrumentation-http';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { expect, it } from 'vitest';
import { expressStart } from './express-app.ts';
import { OWN_WRAPS, PACKAGES } from './express-neighbours.ts';
import { KINDS, proveBeside } from './matrix.ts';

const all = [...PACKAGES, ...OWN_WRAPS].filter(({ name }) => name !== 'cookie-session');
const starts = [0, all.length].map((split) =>
  expressStart(
    () => all.slice(0, split).map(({ mount }) => mount([])),
    () => all.slice(split).map(({ mount }) => mount([])),
  ),
);
const alone = expressStart(
  () => [],
  () => [],
);

it('[H14] beside OpenTelemetry, which patches http and Express, each request is one span', async () => {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const stop = registerInstrumentations({
    tracerProvider,
    instrumentations: [new HttpInstrumentation(), new ExpressInstrumentation()],
  });
  // They patch a module when it is required.
  const require = createRequire(import.meta.url);
  for (const name of ['http', 'express']) require(name);
  const served = () => exporter.getFinishedSpans().filter(({ kind }) => kind === SpanKind.SERVER);
  try {
    await proveBeside(alone);
    await expect.poll(() => served().length).toBe(3 * KINDS.length);
    for (const start of starts) await proveBeside(start);
    await expect.poll(() => served().length).toBe(9 * KINDS.length);
  } finally {
    stop();
    context.disable();
  }
});

type Any = (this: unknown, ...all: unknown[]) => unknown;

/** Wraps methods of Node's classes as tracers do, counts their calls, and gives a function that puts them back. */
function patch(counts: Map<string, number>, owner: object, names: readonly string[]): () => void {
  const target = owner as Record<string, Any>;
  const found = names.map((name) => [name, Object.getOwnPropertyDescriptor(owner, name)] as const);
  for (const name of names) {
    const inner = target[name]!;
    target[name] = function (...args) {
      counts.set(name, (counts.get(name) ?? 0) + 1);
      return inner.apply(this, args);
    };
  }
  return () => {
    for (const [name, descriptor] of found) {
      if (descriptor === undefined) delete target[name];
      else Object.defineProperty(owner, name, descriptor);
    }
  };
}

it("[H14] beside a tracer that wraps Node's own classes, each answer is ended once", async () => {
  const counts = new Map<string, number>();
  const undo = [
    patch(counts, ServerResponse.prototype, ['writeHead', 'write', 'end', 'setHeader']),
    patch(new Map(), IncomingMessage.prototype, ['push', 'read', 'on', 'emit']),
    patch(new Map(), Server.prototype, ['emit']),
  ];
  try {
    await proveBeside(alone);
    expect(counts.get('end')).toBe(3 * KINDS.length);
    expect(counts.get('writeHead')).toBe(3 * KINDS.length);
    for (const start of starts) await proveBeside(start);
    expect(counts.get('end')).toBe(9 * KINDS.length);
    expect(counts.get('writeHead')).toBe(9 * KINDS.length);
  } finally {
    for (const one of undo) one();
  }
});

it("[H14] the door leaves Node's own classes as it found them", async () => {
  const methods = () => [
    ...Object.values(Object.getOwnPropertyDescriptors(ServerResponse.prototype)),
    ...Object.values(
      Object.getOwnPropertyDescriptors(Object.getPrototypeOf(ServerResponse.prototype)),
    ),
    ...Object.values(Object.getOwnPropertyDescriptors(IncomingMessage.prototype)),
  ];
  const before = methods();
  await proveBeside(alone);
  expect(methods()).toEqual(before);
});
