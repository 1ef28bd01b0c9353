import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { afterEach, beforeEach, expect, it } from 'vitest';
import * as client from '../../src/client/index.ts';
import { idempotency, keepRawBody } from '../../src/doors/express.ts';
import { memoryStore } from '../../src/stores/memory/index.ts';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';

let server: Server;
let proxy: FaultProxy;
let effects: string[];

/** Flights can be booked and cancelled, behind a door with nothing but defaults. There are no hotels. */
beforeEach(async () => {
  effects = [];
  const app = express();
  app.use(express.json({ verify: keepRawBody }));
  app.use(
    idempotency({
      store: memoryStore(),
      scopeFrom: () => 'someone',
      effect: { kind: 'downstream' },
    }),
  );
  app.post('/v1/flights', (_request, response) => {
    effects.push('booked');
    response.status(201).json({ booking_id: 'b-7' });
  });
  const cancel: express.RequestHandler = (request, response) => {
    effects.push(`cancelled ${request.params.id}`);
    // Its answer is lost on the way, and only this one.
    proxy.loseAnswers = proxy.lost.answers === 0 ? 1 : 0;
    response.json({ ok: true });
  };
  app.post('/v1/flights/:id/cancel', cancel);
  app.delete('/v1/flights/:id', cancel);
  app.post('/v1/hotels', (_request, response) => {
    response.status(422).json({ title: 'No room' });
  });
  server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  proxy = await startFaultProxy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
afterEach(async () => {
  await proxy.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/** The example of the guide as it stands there, but for the address and the `fetch` that answers nothing but 201. */
function guideExample(): string {
  const guide = readFileSync(new URL('../../../../docs/guides/client.md', import.meta.url), 'utf8');
  const code = /## Groups\n\n```ts\n(.*?)```/s.exec(guide)?.[1] ?? '';
  return code
    .replace(/import (\{.*?\}) from 'onceward\/client';/, 'const $1 = client;')
    .replace(/^ *fetch: .*$/m, '  retry: { baseMs: 50 },')
    .replace('https://api.example.com', proxy.url)
    .replace('await outbox.close();', 'const end = await outbox.find(id);\n$&\nreturn end;');
}

it("[C15] the guide's own group survives an undo whose answer is lost, on a server of defaults", async () => {
  const AsyncFunction = (async () => {}).constructor as FunctionConstructor;
  const lost = setInterval(() => {
    if (proxy.lost.answers > 0) proxy.loseAnswers = 0;
  }, 1);
  const end = await new AsyncFunction('client', guideExample())(client);
  clearInterval(lost);
  expect(end).toMatchObject({ state: 'failed', outcome: 'undone', reason: 'HTTP 422: No room' });
  expect(proxy.lost.answers).toBe(1);
  expect(effects).toEqual(['booked', 'cancelled b-7']);
});
