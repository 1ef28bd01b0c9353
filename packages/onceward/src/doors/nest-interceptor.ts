import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type CallHandler,
  type ExecutionContext,
  HttpException,
  type NestInterceptor,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { catchError, type Observable, of } from 'rxjs';
import {
  type Admission,
  bodyOf,
  type HttpAnswer,
  HttpGuard,
  type HttpOptions,
  hasLeft,
  type IdempotencyContext,
  isWatched,
  NodeExchange,
  nodeKeyLines,
  pathOf,
  type RouteOptions,
  sendAnswer,
  skipRest,
} from '../http/index.ts';

export const ROUTE_OPTIONS = Symbol('onceward.route-options');

/** What the requests of both adapters have in common. Name your own for what your guards put on it. */
export interface NestRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body?: unknown;
  /** Set for a protected handler, and on a replay for hooks that run on every answer. */
  idempotency?: IdempotencyContext | null | undefined;
}

export type NestOptions<Request extends NestRequest = NestRequest> = HttpOptions<Request> & {
  /** `decorated`: only routes that are marked `@Idempotent()`. */
  readonly routes?: 'all' | 'decorated';
};

/** The parts of the requests and replies of Express and Fastify that are used here. */
interface AnyRequest extends NestRequest {
  readonly raw?: IncomingMessage;
  readonly rawBody?: unknown;
  readonly originalUrl?: string;
  readonly baseUrl?: string;
  readonly route?: { readonly path?: unknown };
  readonly routeOptions?: { readonly url?: string };
}

interface FastifyLikeReply {
  readonly raw: ServerResponse;
  getHeaders(): Record<string, string | string[]>;
  hijack(): unknown;
  send: (payload?: unknown) => unknown;
}

/** Works on Node's own response, below either adapter, so that exception filters and streams are seen too. */
export class IdempotencyInterceptor<Request extends NestRequest> implements NestInterceptor {
  readonly #guard: HttpGuard<Request>;
  readonly #reflector = new Reflector();
  readonly #onlyDecorated: boolean;

  constructor(options: NestOptions<Request>) {
    this.#guard = new HttpGuard<Request>(options);
    this.#onlyDecorated = options.routes === 'decorated';
  }

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const guard = this.#guardOf(context);
    if (guard === null) return next.handle();
    const http = context.switchToHttp();
    const request = http.getRequest<Request>();
    const admission = guard.admit(factsOf(request));
    const response = http.getResponse<ServerResponse | FastifyLikeReply>();
    // Behind another door the first one counts: this one would wait for it.
    if (admission === null || isWatched(rawResponseOf(response))) return next.handle();
    return new Promise((resolve, reject) => {
      serve(guard, admission, response, next, resolve).catch(reject);
    });
  }

  #guardOf(context: ExecutionContext): HttpGuard<Request> | null {
    if (context.getType() !== 'http') return null;
    const targets = [context.getHandler(), context.getClass()];
    const own = this.#reflector.getAllAndOverride<RouteOptions<Request> | false | undefined>(
      ROUTE_OPTIONS,
      targets,
    );
    if (own === false) return null;
    if (own === undefined) return this.#onlyDecorated ? null : this.#guard;
    return this.#guard.derive(own);
  }
}

type Resolve = (result: Observable<unknown>) => void;

async function serve<Request extends NestRequest>(
  guard: HttpGuard<Request>,
  admission: Admission<Request>,
  response: ServerResponse | FastifyLikeReply,
  next: CallHandler,
  resolve: Resolve,
): Promise<void> {
  if (admission.refusal !== null) {
    answerPast(response, admission.refusal, resolve);
    return;
  }
  const { request } = admission.facts;
  const body = await bodyOf(rawOf(request), request, guard.settings.maxBodyBytes);
  if (body === 'aborted') {
    resolve(of(undefined));
    return;
  }
  const raw = rawResponseOf(response);
  if (body === 'too_large') skipRest(rawOf(request), raw);
  const exchange = new NodeExchange(raw, guard.settings, (context) => {
    resolve(next.handle().pipe(catchError((error) => letGo(error, context))));
  });
  try {
    const instead = await guard.protect(admission, body, exchange);
    if (instead !== null && !exchange.hasRun) answerPast(response, instead, resolve);
    else exchange.finish(instead);
  } catch (error) {
    if (!exchange.hasRun) throw error;
    exchange.finish(null);
  }
}

/** Pipes refuse input inside the claim. Nothing has happened then, so there is nothing to keep. */
function letGo(error: unknown, context: IdempotencyContext | null): never {
  if (error instanceof HttpException && error.getStatus() === 400) context?.release();
  throw error;
}

/** What Nest, and the interceptors around this one, may call on a response once the handler has returned. */
const SILENCED = [
  'setHeader',
  'appendHeader',
  'removeHeader',
  'writeHead',
  'write',
  'end',
  'flushHeaders',
] as const;

/**
 * Sends an answer past Nest, byte for byte as it was, whatever the interceptors around this one do to results. Nest
 * goes on as if the handler had returned nothing, and what it then writes has nowhere to go. It does so when the
 * answer is out: middleware that saves a session or compresses needs the methods of the response until then.
 */
function answerPast(
  response: ServerResponse | FastifyLikeReply,
  answer: HttpAnswer,
  resolve: Resolve,
): void {
  const raw = rawResponseOf(response);
  if ('raw' in response) {
    for (const [name, value] of Object.entries(response.getHeaders())) raw.setHeader(name, value);
    response.hijack();
    response.send = () => response;
  }
  const goOn = () => {
    for (const name of SILENCED) {
      Object.defineProperty(raw, name, { configurable: true, value: () => raw });
    }
    resolve(of(undefined));
  };
  if (hasLeft(raw)) {
    goOn();
    return;
  }
  raw.once('finish', goOn).once('close', goOn);
  sendAnswer(raw, answer);
}

function rawResponseOf(response: ServerResponse | FastifyLikeReply): ServerResponse {
  return 'raw' in response ? response.raw : response;
}

function factsOf<Request extends NestRequest>(request: Request) {
  const { method, originalUrl, url, headers } = request as AnyRequest;
  const target = originalUrl ?? url;
  return {
    request,
    method,
    target,
    route: routeOf(request) ?? pathOf(target),
    contentType: headers['content-type'],
    keyLines: nodeKeyLines(rawOf(request)),
    attach,
  };
}

function attach(request: NestRequest, context: IdempotencyContext): void {
  request.idempotency = context;
}

function routeOf(request: AnyRequest): string | undefined {
  if (request.routeOptions !== undefined) return request.routeOptions.url;
  const path = request.route?.path;
  return path === undefined ? undefined : `${request.baseUrl ?? ''}${String(path)}`;
}

function rawOf(request: AnyRequest): IncomingMessage {
  return request.raw ?? (request as unknown as IncomingMessage);
}
