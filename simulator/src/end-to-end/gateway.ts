import type { IncomingMessage, ServerResponse } from 'node:http';
import { Engine, nodePlatform, profiles } from 'onceward';
import { type HttpAnswer, HttpGuard, nodeKeyLines, problemAnswer } from 'onceward/http';
import { Visit } from '../../../packages/server/src/api/visit.ts';
import { BufferBudget } from '../../../packages/server/src/gateway/buffer-budget.ts';
import { sendWhole } from '../../../packages/server/src/gateway/client-answer.ts';
import {
  type ExchangeParts,
  GatewayExchange,
} from '../../../packages/server/src/gateway/gateway-exchange.ts';
import { isOwnAnswer } from '../../../packages/server/src/gateway/own-answers.ts';
import type { UpstreamRequest } from '../../../packages/server/src/gateway/upstream.ts';
import type { Life } from './life.ts';
import type { Caller, Reply, WireRequest } from './network.ts';
import type { EndToEndPlan } from './plan.ts';
import type { SharedStore } from './shared-store.ts';
import { ownerOf, type Tokens } from './tokens.ts';
import { LONGEST_KEPT, type SimulatedUpstream } from './upstream.ts';

export interface GatewaySurroundings {
  readonly plan: EndToEndPlan;
  readonly store: SharedStore;
  readonly upstream: SimulatedUpstream;
  readonly tokens: Tokens;
  readonly onFault: (error: unknown) => void;
}

const ROOM = 1_048_576;
const SWEEP_MS = 15_000;

/** One life of a gateway: the real engine, the real guard and the real exchange, without sockets. */
export class GatewayProcess {
  readonly engine: Engine;
  readonly #life: Life;
  readonly #around: GatewaySurroundings;
  readonly #guard: HttpGuard<IncomingMessage>;
  readonly #parts: ExchangeParts;
  readonly #open = new Set<CapturedResponse>();

  constructor(life: Life, around: GatewaySurroundings) {
    const { plan, store, upstream } = around;
    const { profile, leaseMs, keepMs } = plan;
    this.#life = life;
    this.#around = around;
    this.engine = new Engine({
      store: store.openFor(life),
      world: life.world,
      platform: nodePlatform(),
      sweep: { everyMs: SWEEP_MS },
    });
    this.#guard = new HttpGuard<IncomingMessage>({
      engine: this.engine,
      // The user, not the token: a new token is still the same user's.
      scopeFrom: ({ headers }) => ownerOf(headers.authorization ?? ''),
      effect: { kind: 'external', onLapse: 'in_doubt' },
      profile,
      policy: {
        ...profiles[profile],
        leaseMs,
        keepCommittedMs: keepMs,
        keepRejectedMs: keepMs,
        maxOutcomeBytes: LONGEST_KEPT,
      },
      keep: (answer, standard) => standard && !isOwnAnswer(answer),
    });
    this.#parts = {
      upstream: { send: (request: UpstreamRequest) => life.hear(upstream.send(request)) },
      metrics: { countUpstreamFault() {} },
      answerBudget: new BufferBudget(ROOM),
    } as unknown as ExchangeParts;
    life.whenOver(() => {
      for (const response of this.#open) response.breakOff();
    });
  }

  receive(request: WireRequest, caller: Caller, reply: Reply): void {
    const response = new CapturedResponse((answer) => {
      this.#open.delete(response);
      reply(answer);
    });
    this.#open.add(response);
    if (caller.hasLeft) response.visit.end();
    caller.whenLeft = () => this.#life.alive && response.visit.end();
    this.#serve(request, response).catch((error: unknown) => {
      this.#around.onFault(error);
      response.breakOff();
    });
  }

  async #serve(request: WireRequest, response: CapturedResponse): Promise<void> {
    const message = messageOf(request);
    const out = response as unknown as ServerResponse;
    const { method, target } = request;
    const admission = this.#guard.admit({
      request: message,
      method,
      target,
      route: target,
      contentType: request.headers['content-type'],
      keyLines: nodeKeyLines(message),
    });
    if (admission === null) throw new Error('a request without a key');
    if (admission.refusal !== null) return sendWhole(out, admission.refusal);
    const { plan, tokens } = this.#around;
    if (tokens.userOf(request.headers.authorization ?? '') === null) {
      return sendWhole(out, this.#unauthorized(admission.key));
    }
    const body = Buffer.from(request.body);
    const exchange = new GatewayExchange(this.#parts, {
      request: message,
      response: out,
      visit: response.visit,
      target,
      body,
      settings: {
        upstreamTimeoutSeconds: plan.upstreamTimeoutMs / 1_000,
        upstreamUnknown: 'in_doubt',
        profile: plan.profile,
      },
      maxKeptBytes: this.#guard.settings.maxKeptBytes,
      keepStreams: false,
    });
    try {
      const instead = await this.#guard.protect(admission, body, exchange);
      if (this.#life.alive) exchange.finish(instead);
    } finally {
      exchange.dispose();
    }
  }

  #unauthorized(key: string): HttpAnswer {
    const detail = 'the token is not accepted';
    return problemAnswer('unauthorized', this.#around.plan.profile, { detail, key });
  }
}

function messageOf({ method, target, headers, body }: WireRequest): IncomingMessage {
  const all: Record<string, string> = {
    ...headers,
    'content-length': `${Buffer.byteLength(body)}`,
  };
  const message = {
    method,
    url: target,
    headers: all,
    rawHeaders: Object.entries(all).flat(),
    socket: { remoteAddress: '192.0.2.1', destroy() {} },
  };
  return message as unknown as IncomingMessage;
}

/** What the exchange uses of a response of Node's, put together again. */
class CapturedResponse {
  readonly visit = new Visit(null);
  headersSent = false;
  destroyed = false;
  readonly writableNeedDrain = false;
  readonly socket = null;
  readonly #reply: Reply;
  #status = 0;
  #headers: readonly string[] = [];
  readonly #pieces: Uint8Array[] = [];
  #isOver = false;

  constructor(reply: Reply) {
    this.#reply = reply;
  }

  writeHead(status: number, headers: readonly string[]): void {
    this.headersSent = true;
    this.#status = status;
    this.#headers = headers;
  }

  flushHeaders(): void {}

  write(piece: Uint8Array): boolean {
    this.#pieces.push(piece);
    return true;
  }

  end(piece?: Uint8Array): void {
    if (piece !== undefined) this.#pieces.push(piece);
    const body = Buffer.concat(this.#pieces).toString();
    this.#finish({ status: this.#status, headers: this.#headers, body });
  }

  destroy(): void {
    this.destroyed = true;
    this.#finish(null);
  }

  breakOff(): void {
    this.#finish(null);
  }

  #finish(answer: Parameters<Reply>[0]): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.visit.end();
    this.#reply(answer);
  }
}
