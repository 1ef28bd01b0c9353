import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Metrics } from '../observability/metrics.ts';
import { faultAnswer } from './fault-answer.ts';
import { answerHeaders, requestHeaders } from './forwarded-headers.ts';
import { sendWhole } from './gateway-exchange.ts';
import { declaredLength, refuseBody } from './request-body.ts';
import { failureOf, type Upstream, UpstreamFailure } from './upstream.ts';

/** Forwards a request that is none of ours: nothing is held, and a client that leaves ends it. */
export async function passThrough(
  upstream: Upstream,
  metrics: Metrics,
  silenceMs: number,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const length = declaredLength(request);
  const abort = new AbortController();
  response.once('close', () => abort.abort());
  try {
    const answer = await upstream.send({
      method: request.method ?? 'GET',
      target: request.url ?? '/',
      headers: requestHeaders(request, length === 0 ? null : length),
      body: length === 0 ? null : detached(request),
      silenceMs,
      signal: abort.signal,
    });
    response.writeHead(answer.status, answerHeaders(answer.headers));
    response.flushHeaders();
    await pipeline(answer.body, response);
  } catch (error) {
    if (abort.signal.aborted || response.headersSent) {
      if (error instanceof UpstreamFailure) metrics.countUpstreamFault(error.fault);
      response.destroy();
      return;
    }
    const { fault } = failureOf(error);
    metrics.countUpstreamFault(fault);
    refuseBody(request, response);
    sendWhole(response, faultAnswer(fault, false), false);
  }
}

/** The request as a stream of its own: when the upstream breaks off, the client is still to be told. */
function detached(request: IncomingMessage): Readable {
  return Readable.from(request.iterator({ destroyOnReturn: false }), { objectMode: false });
}
