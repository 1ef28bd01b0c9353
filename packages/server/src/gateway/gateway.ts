import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { type Admission, nodeKeyLines, pathOf } from 'onceward/http';
import { OpenConnections } from '../api/open-connections.ts';
import { Problem } from '../api/problem.ts';
import { assertHost, refuseMalformed, SERVER_OPTIONS } from '../api/raw-refusals.ts';
import { toProblem } from '../api/refusals.ts';
import type { Program } from '../compose.ts';
import { AnswerReader } from './answer-reader.ts';
import { BufferBudget, type Share } from './buffer-budget.ts';
import { GatewayExchange, sendWhole } from './gateway-exchange.ts';
import { passThrough } from './pass-through.ts';
import { declaredLength, type ReadBody, readBody, refuseBody, resumed } from './request-body.ts';
import { type Matched, RouteTable } from './route-table.ts';
import { forwardUpgrade } from './upgrade.ts';
import { Upstream } from './upstream.ts';

/** Makes the API behind it idempotent: requests with a key go through a guard, all others straight on. */
export class Gateway {
  readonly server: Server;
  readonly #program: Program;
  readonly #routes: RouteTable;
  readonly #upstream: Upstream;
  readonly #url: URL;
  readonly #reader: AnswerReader;
  readonly #requestBudget: BufferBudget;
  readonly #connections: OpenConnections;

  constructor(program: Program, url: URL) {
    const { settings } = program.config;
    this.#program = program;
    this.#url = url;
    this.#routes = new RouteTable(program);
    this.#upstream = new Upstream({ url, connections: settings.upstreamConnections });
    // Two halves: a request that waits for room for its answer must not hold up the answers.
    this.#requestBudget = new BufferBudget(settings.bufferBytes / 2);
    this.#reader = new AnswerReader(new BufferBudget(settings.bufferBytes / 2));
    this.server = createServer(SERVER_OPTIONS);
    refuseMalformed(this.server);
    this.#connections = new OpenConnections(this.server);
    this.server.on('request', (request, response) => this.#serve(request, response, false));
    this.server.on('checkContinue', (request, response) => this.#serve(request, response, true));
    this.server.on('upgrade', (request, socket, head) =>
      forwardUpgrade(url, program.metrics, request, socket, head),
    );
  }

  /** Takes no new requests and waits for the running ones. */
  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.server.close(() => resolve());
      this.#connections.endIdle();
    });
    await this.#upstream.close();
  }

  cutOff(): void {
    this.server.closeAllConnections();
    void this.#upstream.destroy();
  }

  #serve(request: IncomingMessage, response: ServerResponse, awaitsLeave: boolean): void {
    const began = performance.now();
    response.once('finish', () => this.#time(request, response, began));
    this.#forward(request, response, awaitsLeave).catch((error: unknown) => {
      const problem = toProblem(error);
      if (problem.status >= 500) this.#program.log.error({ err: error }, 'failed');
      refuse(request, response, problem);
    });
  }

  async #forward(
    request: IncomingMessage,
    response: ServerResponse,
    awaitsLeave: boolean,
  ): Promise<void> {
    assertHost(request);
    const target = request.url ?? '';
    if (!target.startsWith('/')) {
      throw new Problem('invalid-request', 'the request must name a path that begins with /');
    }
    const matched = this.#routes.match(pathOf(target));
    const { guard, callers, settings } = matched.rules;
    const admission = guard.admit({
      request,
      method: request.method ?? '',
      target,
      route: matched.route,
      contentType: request.headers['content-type'],
      keyLines: nodeKeyLines(request),
      attach: ignoreContext,
    });
    const refusal =
      admission === null ? null : (admission.refusal ?? (await callers.refuse(admission)));
    if (refusal !== null) {
      refuseBody(request, response);
      sendWhole(response, refusal, false);
      return;
    }
    // Whoever left while an authentication server was asked will send no body to wait for.
    if (request.socket.destroyed) return;
    if (awaitsLeave && !isHopeless(request, matched, admission)) response.writeContinue();
    if (admission === null) {
      const silenceMs = settings.upstreamTimeoutSeconds * 1_000;
      await passThrough(this.#upstream, this.#program.metrics, silenceMs, request, response);
      return;
    }
    await this.#protect(request, response, matched, admission);
  }

  async #protect(
    request: IncomingMessage,
    response: ServerResponse,
    { rules }: Matched,
    admission: Admission<IncomingMessage>,
  ): Promise<void> {
    const { guard, settings } = rules;
    const limit = guard.settings.maxBodyBytes;
    const share = await this.#roomFor(request, limit);
    try {
      const body = await readBody(request, limit);
      if (body.kind === 'gone') return;
      const whole = body.kind === 'whole';
      const refused = !whole && settings.mode === 'enforce';
      if (refused) refuseBody(request, response);
      const exchange = new GatewayExchange(
        { upstream: this.#upstream, reader: this.#reader, metrics: this.#program.metrics },
        {
          request,
          response,
          body: refused ? NOTHING : forwardable(body),
          settings,
          maxKeptBytes: guard.settings.maxKeptBytes,
          keepStreams: guard.settings.streams === 'keep',
        },
      );
      const bytes = whole ? body.bytes : 'too_large';
      try {
        exchange.finish(await guard.protect(admission, bytes, exchange));
      } finally {
        exchange.dispose();
      }
    } finally {
      share.release();
    }
  }

  /** Room for all of the body that is going to be read, before any of it is. */
  #roomFor(request: IncomingMessage, limit: number): Share | Promise<Share> {
    const declared = declaredLength(request);
    if (declared !== null && declared > limit) return this.#requestBudget.take(0);
    return this.#requestBudget.take(declared ?? limit);
  }

  #time(request: IncomingMessage, response: ServerResponse, began: number): void {
    const seconds = (performance.now() - began) / 1_000;
    const method = request.method ?? '';
    // The paths are the upstream's own and without number: they are one route here.
    this.#program.metrics.timeRequest(method, 'upstream', response.statusCode, seconds);
  }
}

/** The handler is the upstream, which looks for nothing on our request. */
function ignoreContext(): void {}

const NOTHING = new Uint8Array(0);

function forwardable(body: Exclude<ReadBody, { kind: 'gone' }>): Uint8Array | Readable {
  return body.kind === 'whole' ? body.bytes : Readable.from(resumed(body), { objectMode: false });
}

/** A body that is known to be refused need not be sent at all. */
function isHopeless(
  request: IncomingMessage,
  { rules }: Matched,
  admission: Admission<IncomingMessage> | null,
): boolean {
  if (admission === null || rules.settings.mode !== 'enforce') return false;
  return (declaredLength(request) ?? 0) > rules.guard.settings.maxBodyBytes;
}

function refuse(request: IncomingMessage, response: ServerResponse, problem: Problem): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  refuseBody(request, response);
  const headers = ['content-type', 'application/problem+json'];
  const { status } = problem;
  const body = Buffer.from(JSON.stringify(problem.toBody()));
  sendWhole(response, { status, headers, body }, false);
}
