import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { engineOf } from 'onceward';
import { idempotency } from 'onceward/express';
import { memoryStore } from 'onceward/memory';
import { expect, it, vi } from 'vitest';

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

it('gives the engine of the doors on a store, to resolve what they left in doubt and to be closed', async () => {
  const store = memoryStore();
  const app = express();
  const effect = { kind: 'external', onLapse: 'in_doubt' } as const;
  app.use(idempotency({ store, scopeFrom: () => 'ann', effect }));
  app.post('/orders', (request, response) => {
    request.idempotency?.doubt();
    response.status(504).end();
  });
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const send = () =>
    fetch(`http://127.0.0.1:${port}/orders`, {
      method: 'POST',
      headers: { 'idempotency-key': 'order-77' },
    });
  try {
    expect((await send()).status).toBe(504);
    const engine = engineOf(store);
    const doubts = () => all(engine.list({ states: ['in_doubt'], limit: 10 }));
    const [doubt] = await doubts();
    expect(doubt?.id.key).toBe('order-77');
    const verdict = { as: 'void', keepMs: 1_000, by: 'ann', reason: 'no such order' } as const;
    const errors = vi.spyOn(console, 'error').mockImplementation(() => {});
    expect(await engine.resolve(doubt!.id, verdict)).toEqual({ done: true });
    expect(JSON.parse(errors.mock.calls[0]?.[0])).toMatchObject({ audit: { by: 'ann' } });
    errors.mockRestore();
    expect(await doubts()).toEqual([]);
    await engine.close();
    expect(engineOf(store)).toBe(engine);
  } finally {
    server.close();
    await store.close();
  }
});
