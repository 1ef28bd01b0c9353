import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { OpenConnections } from '../api/open-connections.ts';
import { Problem } from '../api/problem.ts';
import { refuseMalformed, SERVER_OPTIONS, writeRaw, writeRawAnswer } from '../api/raw-refusals.ts';
import { toProblem } from '../api/refusals.ts';
import type { Visit } from '../api/visit.ts';
import type { Program } from '../compose.ts';
import { admit } from './admission.ts';
import { BufferBudget } from './buffer-budget.ts';
import { sendWhole } from './client-answer.ts';
import { GatewayRequest } from './gateway-request.ts';
import { isHopeless, type ManagedParts, protect } from './managed-request.ts';
import { passThrough } from './pass-through.ts';
import { refuseBody } from './request-body.ts';
import { RouteTable } from './route-table.ts';
import { Upgrades } from './upgrade.ts';
import { Upstream } from './upstream.ts';

/** Requests that one connection may have in flight at once. No client is known that pipelines more than a few. */
const MOST_PIPELINED = 256;

/** Makes the API behind it idempotent: requests with a key go through a guard, all others straight on. */
export class Gateway {
  readonly server: Server;
  readonly #program: Program;
  readonly #routes: RouteTable;
  readonly #parts: ManagedParts;
  readonly #upgrades: Upgrades;
  readonly #connections: OpenConnections;

  constructor(program: Program, url: URL) {
    const { settings } = program.config;
    const { metrics } = program;
    this.#program = program;
    this.#routes = new RouteTable(program);
    this.#parts = {
      upstream: new Upstream({ url, connections: settings.upstreamConnections }),
      metrics,
      // Two halves: a request that waits for room for its answer must not hold up the answers.
      requestBudget: new BufferBudget(settings.bufferBytes / 2),
      answerBudget: new BufferBudget(settings.bufferBytes / 2),
    };
    const { requestBudget, answerBudget } = this.#parts;
    this.#upgrades = new Upgrades(url, metrics, settings);
    metrics.watchGateway({
      requestBytes: () => requestBudget.held,
      responseBytes: () => answerBudget.held,
      waiting: () => requestBudget.waiting + answerBudget.waiting,
      upgrades: () => this.#upgrades.open,
    });
    this.server = createServer({ ...SERVER_OPTIONS, IncomingMessage: GatewayRequest });
    this.#connections = new OpenConnections(this.server);
    refuseMalformed(this.server, this.#connections);
    this.server.on('request', (request, response) => this.#serve(request, response, false));
    this.server.on('checkContinue', (request, response) => this.#serve(request, response, true));
    this.server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head));
  }

  /** Takes no new requests and waits for the running ones. */
  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.server.close(() => resolve());
      this.#connections.endIdle();
    });
    await this.#parts.upstream.close();
  }

  cutOff(): void {
    this.#connections.cutOff();
    void this.#parts.upstream.destroy();
  }

  #serve(request: IncomingMessage, response: ServerResponse, awaitsLeave: boolean): void {
    const began = performance.now();
    const visit = this.#connections.enter(request, response);
    if (this.#connections.waitingOn(request.socket) > MOST_PIPELINED) {
      request.socket.destroy();
      return;
    }
    response.once('finish', () => this.#time(request, response, began));
    this.#forward(request, response, visit, awaitsLeave).catch((error: unknown) => {
      refuse(request, response, this.#problemOf(error));
    });
  }

  async #forward(
    request: IncomingMessage,
    response: ServerResponse,
    visit: Visit,
    awaitsLeave: boolean,
  ): Promise<void> {
    const { target, matched, managed } = admit(request, this.#routes);
    const { rules } = matched;
    const refusal =
      managed === null ? null : (managed.refusal ?? (await rules.callers.refuse(managed)));
    // A client that left while an authentication server was asked sends no body to wait for.
    if (visit.isOver) return;
    if (refusal !== null) {
      refuseBody(request, response);
      sendWhole(response, refusal);
      return;
    }
    if (managed === null) {
      if (awaitsLeave) giveLeave(response);
      const { upstream, metrics } = this.#parts;
      const { settings } = rules;
      await passThrough({ upstream, metrics, settings, target, visit }, request, response);
      return;
    }
    if (awaitsLeave && !isHopeless({ request, rules })) giveLeave(response);
    await protect(this.#parts, { request, response, visit, target, rules, admission: managed });
  }

  #upgrade(request: IncomingMessage, client: Duplex, head: Buffer): void {
    // From here on the connection is ours alone: no other listener gets its errors.
    client.on('error', () => client.destroy());
    // What is written now would be taken for the answer to a request before this one.
    if (this.#connections.isAnswering(client)) {
      client.destroy();
      return;
    }
    this.#connections.enterSocket(client);
    try {
      const { target, managed } = admit(request, this.#routes);
      if (managed?.refusal) {
        writeRawAnswer(client, managed.refusal);
      } else if (managed !== null) {
        throw new Problem('invalid-request', 'a request with a key cannot be upgraded');
      } else {
        this.#upgrades.forward({ request, target, client, head });
      }
    } catch (error) {
      writeRaw(client, this.#problemOf(error));
    }
  }

  #problemOf(error: unknown): Problem {
    const problem = toProblem(error);
    if (problem.status >= 500) this.#program.log.error({ err: error }, 'failed');
    return problem;
  }

  #time(request: IncomingMessage, response: ServerResponse, began: number): void {
    const seconds = (performance.now() - began) / 1_000;
    const method = request.method ?? '';
    // The paths are the upstream's own and without number: they are one route here.
    this.#program.metrics.timeRequest(method, 'upstream', response.statusCode, seconds);
  }
}

/**
 * Says `100 Continue` once it is this response's turn on its connection: written earlier, Node would send it after the
 * head of the answer.
 */
function giveLeave(response: ServerResponse): void {
  const write = () => {
    if (!response.headersSent) response.writeContinue();
  };
  if (response.socket === null) response.once('socket', write);
  else write();
}

function refuse(request: IncomingMessage, response: ServerResponse, problem: Problem): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  refuseBody(request, response);
  const headers = ['content-type', 'application/problem+json'];
  const { status, retryAfterSeconds } = problem;
  if (retryAfterSeconds !== undefined) headers.push('retry-after', String(retryAfterSeconds));
  const body = Buffer.from(JSON.stringify(problem.toBody()));
  sendWhole(response, { status, headers, body });
}
