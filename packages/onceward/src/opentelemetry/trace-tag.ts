import { isSpanContextValid, type SpanContext, TraceFlags, trace } from '@opentelemetry/api';

const PARENT = /~00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/** The current span in the form of a `traceparent`, or nothing where there is none. */
export function traceTag(): string {
  const current = trace.getActiveSpan()?.spanContext();
  if (current === undefined || !isSpanContextValid(current)) return '';
  const flags = current.traceFlags.toString(16).padStart(2, '0');
  return `~00-${current.traceId}-${current.spanId}-${flags}`;
}

/** The span in which an attempt ran, read from the name of the attempt. */
export function spanOfAttempt(owner: string): SpanContext | null {
  const match = PARENT.exec(owner);
  if (match === null) return null;
  const [, traceId = '', spanId = '', flags = '0'] = match;
  const traceFlags = Number.parseInt(flags, 16) & TraceFlags.SAMPLED;
  const context = { traceId, spanId, traceFlags, isRemote: true };
  return isSpanContextValid(context) ? context : null;
}
