import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** What tests need of a server, whichever one it is: an address, and how often an effect really happened. */
export interface OrdersServer {
  readonly url: string;
  /** How often each item was ordered. */
  effects(): ReadonlyMap<string, number>;
  /** The `Authorization` under which each item was ordered, once for each effect. */
  users(): ReadonlyMap<string, readonly string[]>;
  /** How many requests arrived for each item, replays included. */
  requests(): ReadonlyMap<string, number>;
  /** What becomes of the next orders; `behave(…)` with nothing makes it well again. */
  behave(trouble?: Trouble): void;
  close(): Promise<void>;
}

export interface Trouble {
  /** The effect happens, and then the connection breaks. */
  readonly loseAnswers?: number;
  /** The same, for this share of all orders. */
  readonly lossRate?: number;
  /** Every answer waits this long after the effect. */
  readonly delayMs?: number;
  readonly status?: number;
  /** What becomes of the next requests, one by one, before anything happens. */
  readonly script?: readonly { readonly waitMs: number; readonly status?: number }[];
  /** More than so many orders in a second get a 429 with `Retry-After: 1`. */
  readonly perSecond?: number;
  /** Who gets a 401, by `Authorization`. */
  readonly unauthorized?: readonly string[];
}

/** Further files to serve: pages and scripts, by path. */
export type Files = Readonly<Record<string, { readonly type: string; readonly text: string }>>;

/**
 * A small server that honours keys, of each user for itself: the effect and its answer are remembered in one step.
 * Items whose name begins with `refused` are refused, and that is remembered too.
 */
export async function startOrdersServer(files: Files = {}): Promise<OrdersServer> {
  const answers = new Map<string, string>();
  const effects = new Map<string, number>();
  const requests = new Map<string, number>();
  const users = new Map<string, string[]>();
  const taken: number[] = [];
  let script: { waitMs: number; status?: number }[] = [];
  let trouble: Trouble = {};
  let toLose = 0;

  const order = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { item } = JSON.parse(await readBody(request)) as { item: string };
    const user = request.headers.authorization ?? '';
    const key = `${user} ${request.headers['idempotency-key']}`;
    count(requests, item);
    const scene = script.shift();
    if (scene) await sleep(scene.waitMs);
    const status = trouble.unauthorized?.includes(user) ? 401 : (scene?.status ?? trouble.status);
    if (status !== undefined) {
      response.writeHead(status).end();
      return;
    }
    const now = performance.now();
    if (trouble.perSecond && taken.filter((at) => now - at < 1_000).length >= trouble.perSecond) {
      response.writeHead(429, { 'retry-after': '1' }).end();
      return;
    }
    taken.push(now);
    const refused = item.startsWith('refused');
    const replayed = answers.has(key);
    if (!replayed) {
      if (!refused) {
        count(effects, item);
        users.set(item, [...(users.get(item) ?? []), user]);
      }
      answers.set(key, JSON.stringify({ order_id: `o-${answers.size + 1}`, item }));
    }
    if (toLose > 0 || Math.random() < (trouble.lossRate ?? 0)) {
      toLose -= 1;
      request.socket.destroy();
      return;
    }
    if (trouble.delayMs) await sleep(trouble.delayMs);
    const headers = {
      'content-type': 'application/json',
      'idempotency-replayed': String(replayed),
    };
    response.writeHead(refused ? 422 : 201, headers).end(answers.get(key));
  };

  const server = createServer((request, response) => {
    if (request.method === 'POST') {
      order(request, response).catch(() => request.socket.destroy());
      return;
    }
    const file = files[request.url?.split('?')[0] ?? ''];
    response.writeHead(file ? 200 : 404, { 'content-type': file?.type ?? 'text/plain' });
    response.end(file?.text ?? 'not found');
  });
  const url = await listen(server);
  return {
    url,
    effects: () => effects,
    users: () => users,
    requests: () => requests,
    behave(next = {}) {
      trouble = next;
      toLose = next.loseAnswers ?? 0;
      script = [...(next.script ?? [])];
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function count(counts: Map<string, number>, item: string): void {
  counts.set(item, (counts.get(item) ?? 0) + 1);
}

function listen(server: Server): Promise<string> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    });
  });
}

async function readBody(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text;
}
