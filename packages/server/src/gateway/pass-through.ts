import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Metrics } from '../observability/metrics.ts';
import { wholeOf } from './answer-reader.ts';
import { faultAnswer } from './fault-answer.ts';
import { answerHeaders, joinedValue, requestHeaders } from './forwarded-headers.ts';
import { sendWhole } from './gateway-exchange.ts';
import { declaredLength, readBody, refuseBody } from './request-body.ts';
import { failureOf, type Upstream, UpstreamFailure } from './upstream.ts';

/** Bodies up to this arrive in one piece or two, and a stream for each would cost more than the bytes. */
const SMALL = 16_384;

/** Forwards a request that is none of ours: hardly anything is held, and a client that leaves ends it. */
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
    const body = await bodyOf(request, length);
    if (body === 'gone') return;
    const answer = await upstream.send({
      method: request.method ?? 'GET',
      target: request.url ?? '/',
      headers: requestHeaders(request, length === 0 ? null : length),
      body,
      silenceMs,
      signal: abort.signal,
    });
    const headers = answerHeaders(answer.headers);
    const declared = Number(joinedValue(headers, 'content-length') ?? Number.NaN);
    if (declared <= SMALL && request.method !== 'HEAD') {
      const bytes = await wholeOf(answer.body, declared);
      response.writeHead(answer.status, headers).end(bytes);
      return;
    }
    response.writeHead(answer.status, headers);
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

async function bodyOf(
  request: IncomingMessage,
  length: number | null,
): Promise<Uint8Array | Readable | null | 'gone'> {
  if (length === 0) return null;
  if (length === null || length > SMALL) return detached(request);
  const read = await readBody(request, SMALL);
  return read.kind === 'whole' ? read.bytes : 'gone';
}

/** The request as a stream of its own: when the upstream breaks off, the client is still to be told. */
function detached(request: IncomingMessage): Readable {
  const own = new PassThrough();
  request.once('error', (error) => own.destroy(error));
  return request.pipe(own);
}
