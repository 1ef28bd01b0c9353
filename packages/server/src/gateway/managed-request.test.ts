import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import type { Exchange } from 'onceward/http';
import { describe, expect, it } from 'vitest';
import { Visit } from '../api/visit.ts';
import { BufferBudget } from './buffer-budget.ts';
import { type ManagedParts, type ManagedRequest, protect } from './managed-request.ts';
import { Upstream } from './upstream.ts';

const EVENTS = ['granted', 'body end', 'abort', 'answer', 'close'] as const;
type Event = (typeof EVENTS)[number];

/** Every order of every part of the list. */
function* ordersOf<T>(items: readonly T[]): Generator<readonly T[]> {
  yield [];
  for (const item of items) {
    for (const rest of ordersOf(items.filter((other) => other !== item))) yield [item, ...rest];
  }
}

class FakeRequest extends Readable {
  readonly method = 'POST';
  readonly headers: Record<string, string>;
  readonly rawHeaders: string[] = [];
  readonly socket = new EventEmitter();

  constructor(headers: Record<string, string>) {
    super();
    this.headers = headers;
    this.on('error', () => {});
  }

  override _read(): void {}
}

class FakeResponse extends EventEmitter {
  headersSent = false;
  destroyed = false;

  writeHead(): this {
    this.headersSent = true;
    return this;
  }
  flushHeaders(): void {}
  setHeader(): void {}
  write(): boolean {
    return true;
  }
  end(): void {}
  destroy(): void {
    this.destroyed = true;
  }
}

/** One request in a world that is full, where the test fires each event. */
class Model {
  readonly requests = new BufferBudget(100);
  readonly answers = new BufferBudget(100);
  readonly #visit = new Visit(null);
  readonly #request: FakeRequest;
  readonly #body: Readable;
  readonly #blockers = [this.requests, this.requests, this.answers, this.answers].map((budget) => {
    const share = budget.open();
    share.tryGrow(100);
    return share;
  });
  #answer: () => void = () => {};
  readonly ended: Promise<unknown>;

  constructor(chunked: boolean) {
    const length: Record<string, string> = chunked
      ? { 'transfer-encoding': 'chunked' }
      : { 'content-length': '20' };
    this.#request = new FakeRequest(length);
    this.#request.push(Buffer.alloc(10));
    this.#body = Readable.from([Buffer.alloc(30)]);
    const answered = new Promise<void>((resolve) => {
      this.#answer = resolve;
    });
    const upstream = Object.assign(Object.create(Upstream.prototype) as Upstream, {
      send: async () => {
        await answered;
        const headers = chunked ? [] : ['content-length', '30'];
        return { status: 200, headers, body: this.#body };
      },
    });
    const guard = {
      settings: { maxBodyBytes: 50, maxKeptBytes: 50, streams: 'pass' },
      async protect(_admission: unknown, _bytes: unknown, exchange: Exchange) {
        if (!exchange.hasLeft()) await exchange.run(null);
        return null;
      },
    };
    const settings = { mode: 'enforce', minBodyRate: 0, upstreamTimeoutSeconds: 1 };
    const parts = { upstream, requestBudget: this.requests, answerBudget: this.answers };
    const managed = {
      request: this.#request as unknown as IncomingMessage,
      response: new FakeResponse() as unknown as ServerResponse,
      visit: this.#visit,
      target: '/',
      rules: { guard, settings },
      admission: {},
    };
    this.ended = protect(
      { ...parts, metrics: { countUpstreamFault() {} } } as unknown as ManagedParts,
      managed as unknown as ManagedRequest,
    );
  }

  happen(event: Event): void {
    switch (event) {
      case 'granted':
        for (const share of this.#blockers) share.release();
        return;
      case 'body end':
        if (this.#request.destroyed) return;
        this.#request.push(Buffer.alloc(10));
        this.#request.push(null);
        return;
      case 'abort':
        // Pipelined behind another, the response never says that it is closed: only the connection does.
        this.#request.destroy(new Error('aborted'));
        this.#visit.end();
        return;
      case 'answer':
        this.#answer();
        return;
      case 'close':
        this.#visit.end();
    }
  }
}

describe('[H15] what a request holds of the budgets', () => {
  for (const chunked of [false, true]) {
    const kind = chunked ? 'bodies of unknown length' : 'bodies of declared length';
    it(`comes back in whichever order its ends come, with ${kind}`, async () => {
      const orders = [...ordersOf(EVENTS)];
      expect(orders).toHaveLength(326);
      const run = async (order: readonly Event[]) => {
        const model = new Model(chunked);
        for (const event of order) {
          model.happen(event);
          await turn();
          await turn();
        }
        // What must happen in the end: others make room, the upstream answers or is given up, connections close.
        for (const event of ['granted', 'answer', 'close'] as const) {
          if (!order.includes(event)) model.happen(event);
          await turn();
        }
        await model.ended;
        await turn();
        const left = [model.requests, model.answers].map(({ held, waiting }) => [held, waiting]);
        expect({ order, left }).toEqual({
          order,
          left: [
            [0, 0],
            [0, 0],
          ],
        });
      };
      await Promise.all(orders.map(run));
    });
  }
});
