import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Admission, HttpGuard } from '../guard.ts';
import type { IdempotencyContext } from '../idempotency-context.ts';
import { bodyOf, type ParsedBody, skipRest } from '../request/request-body.ts';
import { sendAnswer } from './node-answer.ts';
import { NodeExchange } from './node-exchange.ts';
import { isWatched } from './response-watch.ts';

/**
 * The whole way of a managed request on Node's own request and response. `begin` starts the handler; what is thrown
 * here was thrown before it began.
 */
export async function serveNode<Request>(
  guard: HttpGuard<Request>,
  admission: Admission<Request>,
  request: IncomingMessage & ParsedBody,
  response: ServerResponse,
  begin: (context: IdempotencyContext | null) => void,
): Promise<void> {
  if (isWatched(response)) {
    begin(null);
    return;
  }
  if (admission.refusal !== null) {
    sendAnswer(response, admission.refusal);
    return;
  }
  const read = bodyOf(request, request, guard.settings.maxBodyBytes);
  const body = read instanceof Promise ? await read : read;
  if (body === 'aborted') return;
  if (body === 'too_large') skipRest(request, response);
  const exchange = new NodeExchange(response, guard.settings, begin);
  try {
    exchange.finish(await guard.protect(admission, body, exchange));
  } catch (error) {
    if (!exchange.hasRun) throw error;
    // The effect happened: its caller has the answer, whatever became of the record.
    exchange.finish(null);
  }
}
