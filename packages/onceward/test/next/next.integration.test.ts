import { AsyncLocalStorage } from 'node:async_hooks';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { idempotencyOf, withIdempotency } from '../../src/doors/next.ts';
import { DoorClient } from '../../src/testing/doors/door-client.ts';
import { listenOn } from '../../src/testing/doors/door-listening.ts';
import { doorSuite } from '../../src/testing/doors/door-suite.ts';
import { toWebResponse } from '../../src/testing/doors/door-web.ts';
import { APP, buildApp, type StartedApp, startApp } from './built-app.ts';

/** The part of Next.js's types that is used here. Importing them would change Node's own for the whole project. */
interface NextRequest extends Request {
  readonly nextUrl: URL;
}
interface NextApp {
  prepare(): Promise<void>;
  getRequestHandler(): (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  close(): Promise<void>;
}
const createNext = createRequire(import.meta.url)('next') as (options: {
  readonly dev: boolean;
  readonly dir: string;
  readonly quiet: boolean;
}) => NextApp;

interface RouteContext {
  readonly params: Promise<{ readonly path: readonly string[] }>;
}
type RouteHandler = (request: NextRequest, context: RouteContext) => Promise<Response>;

/** Which door a request came in by: one Next.js serves all doors of this process. */
const current = new AsyncLocalStorage<RouteHandler>();
Object.assign(globalThis, {
  [Symbol.for('onceward.next-test')]: (request: NextRequest, context: RouteContext) =>
    current.getStore()!(request, context),
});

let handle: ReturnType<NextApp['getRequestHandler']>;
let close: () => Promise<void>;

beforeAll(async () => {
  await buildApp();
  const app = createNext({ dev: false, dir: APP, quiet: true });
  await app.prepare();
  handle = app.getRequestHandler();
  close = () => app.close();
}, 180_000);
afterAll(() => close());

doorSuite({
  name: 'inside Next.js',
  async listen({ options, authorize, routes }) {
    const handlers = new Map(
      routes.map((route) => {
        const handler = withIdempotency(
          async (request: NextRequest, { params }: RouteContext) => {
            await params;
            const text = await request.text();
            const body: unknown = text === '' ? undefined : JSON.parse(text);
            return toWebResponse(
              await route.respond({ body, idempotency: idempotencyOf(request) }),
            );
          },
          {
            ...options,
            route: route.path,
            scopeFrom: (request) => request.headers.get('x-user') ?? '',
          },
        );
        return [`${route.method} ${route.path}`, handler];
      }),
    );
    const answer: RouteHandler = async (request, context) => {
      if (!authorize(request.headers.get('authorization') ?? undefined)) {
        return new Response(null, { status: 401 });
      }
      const handler = handlers.get(`${request.method} ${request.nextUrl.pathname}`);
      return handler?.(request, context) ?? new Response(null, { status: 404 });
    };
    return listenOn(
      createServer((request, response) => {
        void current.run(answer, () => handle(request, response));
      }),
    );
  },
});

describe('next start', () => {
  let app: StartedApp;
  let client: DoorClient;
  let keys = 0;
  const newKey = () => `key-${keys++}`;
  const runs = async () =>
    (await client.send({ method: 'GET', path: '/orders/json' })).json().runs as number;

  beforeAll(async () => {
    app = await startApp();
    client = new DoorClient(app.url);
  }, 60_000);
  afterAll(async () => {
    client.close();
    await app.stop();
  });

  it.each(['json', 'binary', 'empty', 'cookies'])(
    '[H5] [H14] a retry of %s gets the bytes of the first answer',
    async (kind) => {
      const request = { path: `/orders/${kind}`, key: newKey(), body: { item: 'widget' } };
      const before = await runs();
      const first = await client.send(request);
      const retry = await client.send(request);
      expect(first.headers['idempotency-replayed']).toBe('false');
      expect(retry.headers['idempotency-replayed']).toBe('true');
      expect(retry.status).toBe(first.status);
      expect(retry.body.equals(first.body)).toBe(true);
      expect(retry.headers['content-type']).toBe(first.headers['content-type']);
      expect(retry.headers['x-run']).toBe(first.headers['x-run']);
      expect(await runs()).toBe(before + 1);
    },
  );

  it('[H5] both cookies reach the first caller, and none a retry', async () => {
    const request = { path: '/orders/cookies', key: newKey() };
    expect((await client.send(request)).headers['set-cookie']).toEqual([
      'a=1; Path=/; HttpOnly',
      'b=2; Expires=Wed, 21 Oct 2065 07:28:00 GMT',
    ]);
    expect((await client.send(request)).headers['set-cookie']).toBeUndefined();
  });

  it('[H7] 50 at once are one run, and 49 get its answer', async () => {
    const request = { path: '/orders/slow', key: newKey() };
    const before = await runs();
    const replies = await Promise.all(Array.from({ length: 50 }, () => client.send(request)));
    expect(new Set(replies.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(replies[0]?.status).toBe(200);
    const replayed = replies.filter(({ headers }) => headers['idempotency-replayed'] === 'true');
    expect(replayed).toHaveLength(49);
    expect(await runs()).toBe(before + 1);
  });

  it('[H8] the same key with another body is refused', async () => {
    const request = { path: '/orders/json', key: newKey(), body: { item: 'widget' } };
    await client.send(request);
    const before = await runs();
    const other = await client.send({ ...request, body: { item: 'gadget' } });
    expect(other.status).toBe(422);
    expect(other.headers['content-type']).toContain('application/problem+json');
    expect(await runs()).toBe(before);
  });

  it('[H3] without a key it runs each time, and a bad key is refused', async () => {
    const request = { path: '/orders/json', body: { item: 'widget' } };
    const before = await runs();
    expect((await client.send(request)).status).toBe(201);
    expect((await client.send(request)).status).toBe(201);
    expect((await client.send({ ...request, key: '  ' })).status).toBe(400);
    expect(await runs()).toBe(before + 2);
  });

  it('[H6] a handler that throws frees its key, and its error stays inside', async () => {
    const request = { path: '/orders/thrown', key: newKey() };
    const before = await runs();
    for (const reply of [await client.send(request), await client.send(request)]) {
      expect(reply.status).toBe(500);
      expect(reply.text).not.toContain('the shelf is empty');
    }
    expect(await runs()).toBe(before + 2);
  });

  it('[H9] a stream reaches its caller whole, and a retry is answered that it ran', async () => {
    const request = { path: '/orders/stream', key: newKey() };
    const first = await client.send(request);
    expect(first.text).toMatch(/^run \d+: one, two, three$/);
    const retry = await client.send(request);
    expect(retry.status).toBe(409);
    expect(retry.json().type).toMatch(/\/response-not-retained$/);
  });

  it('[E7] the handler knows its key and its fence', async () => {
    const key = newKey();
    const reply = await client.send({ path: '/orders/attempt', key });
    expect(reply.json()).toEqual({ key, fenced: true });
  });
});
