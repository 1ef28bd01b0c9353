import type { HttpEvent, HttpEventName } from 'onceward/http';
import type { Logger } from 'pino';
import type { Metrics } from './metrics.ts';

/** Events of the doors alone. The engine emits the rest too, and one line for each is enough. */
const LOGGED: ReadonlySet<HttpEventName> = new Set([
  'idempotency_key_missing',
  'idempotency_key_invalid',
  'idempotency_body_too_large',
  'idempotency_streaming_skipped',
  'idempotency_response_not_retained',
  'idempotency_request_refused',
]);

/** Counts and logs the events of a door. They mask keys themselves. */
export function emitHttpEvent(to: { readonly metrics: Metrics; readonly log: Logger }) {
  return (event: HttpEvent): void => {
    if (!LOGGED.has(event.name)) return;
    if (event.name === 'idempotency_streaming_skipped') to.metrics.countStreamingSkipped();
    if (event.name === 'idempotency_body_too_large') to.metrics.countTooLarge('response');
    if (event.name === 'idempotency_request_refused' && event.status === 413) {
      to.metrics.countTooLarge('request');
    }
    const { name, level, ...facts } = event.toJSON();
    to.log[event.level]({ event: name, ...facts }, String(name));
  };
}
