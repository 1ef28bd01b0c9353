import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Visit } from '../api/visit.ts';
import type { Settings } from '../config/settings.ts';
import type { Metrics } from '../observability/metrics.ts';
import { wholeOf } from './answer-reader.ts';
import { cutStalled, sendWhole } from './client-answer.ts';
import { faultAnswer } from './fault-answer.ts';
import { answerHeaders, joinedValue, requestHeaders } from './forwarded-headers.ts';
import { declaredLength, readBody, refuseBody, tooSlow } from './request-body.ts';
import { failureOf, type Upstream, type UpstreamAnswer, UpstreamFailure } from './upstream.ts';

/** Bodies up to this arrive in one piece or two, and a stream for each would cost more than the bytes. */
const SMALL = 16_384;

/** One for all: a reason that is made for each request costs more than the rest of its abort. */
const OVER = new Error('the request is over');

interface PassingThrough {
  readonly upstream: Upstream;
  readonly metrics: Metrics;
  readonly settings: Pick<Settings, 'upstreamTimeoutSeconds' | 'minBodyRate' | 'profile'>;
  readonly target: string;
  readonly visit: Visit;
}

/** Forwards a request that is none of ours: hardly anything is held, and a client that leaves ends it. */
export async function passThrough(
  passing: PassingThrough,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { upstream, metrics, settings, visit } = passing;
  const length = declaredLength(request);
  const abort = new AbortController();
  visit.whenOver(() => abort.abort(OVER));
  const body = await bodyOf(request, length, passing);
  if (body === 'aborted') return;
  try {
    const answer = await upstream.send({
      method: request.method ?? 'GET',
      target: passing.target,
      headers: requestHeaders(request, length === 0 ? null : length),
      body,
      silenceMs: settings.upstreamTimeoutSeconds * 1_000,
      signal: abort.signal,
    });
    await sendOn(passing, answer, request, response);
  } catch (error) {
    if (abort.signal.aborted || response.headersSent) {
      if (error instanceof UpstreamFailure) metrics.countUpstreamFault(error.fault);
      response.destroy();
      return;
    }
    const { fault } = failureOf(error);
    metrics.countUpstreamFault(fault);
    refuseBody(request, response);
    sendWhole(response, faultAnswer(fault, false, settings.profile));
  }
}

async function sendOn(
  { visit, settings }: PassingThrough,
  answer: UpstreamAnswer,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const headers = answerHeaders(answer.headers);
  if (answer.body === null) {
    response.writeHead(answer.status, headers).end();
    return;
  }
  const declared = Number(joinedValue(headers, 'content-length') ?? Number.NaN);
  if (declared <= SMALL && request.method !== 'HEAD') {
    const bytes = await wholeOf(answer.body, declared);
    response.writeHead(answer.status, headers).end(bytes);
    return;
  }
  response.writeHead(answer.status, headers);
  response.flushHeaders();
  cutStalled(response, visit, settings.upstreamTimeoutSeconds * 1_000);
  await pipeline(answer.body, response);
}

async function bodyOf(
  request: IncomingMessage,
  length: number | null,
  { visit, settings }: PassingThrough,
): Promise<Uint8Array | Readable | null | 'aborted'> {
  if (length === 0) return null;
  if (length === null || length > SMALL) return detached(request);
  const rules = { limit: SMALL, minRate: settings.minBodyRate, share: null };
  const read = await readBody(request, visit, rules);
  if (read.kind === 'slow') throw tooSlow(settings.minBodyRate);
  return read.kind === 'whole' ? read.bytes : 'aborted';
}

/** The request as a stream of its own: when the upstream breaks off, the client still gets an answer. */
function detached(request: IncomingMessage): Readable {
  const own = new PassThrough();
  request.once('error', (error) => own.destroy(error));
  return request.pipe(own);
}
