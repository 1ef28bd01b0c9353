import Fastify from 'fastify';
import { expect, it } from 'vitest';
import { idempotency } from '../../src/doors/fastify.ts';
import { memoryStore } from '../../src/stores/memory/index.ts';

it('[H14] a handler whose transaction was lost does not answer its caller with success', async () => {
  const store = memoryStore();
  const shared = Object.assign(store, { within: () => store });
  const app = Fastify();
  app.register(idempotency, {
    store: shared,
    scopeFrom: () => 'ada',
    effect: {
      kind: 'transaction',
      transact: async (work: (tx: object) => Promise<unknown>) => {
        // The engine stops it, and nobody is left to hear of that.
        work({}).catch(() => {});
        throw new Error('the connection is gone');
      },
    },
  } as never);
  app.post('/orders', async () => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    return { done: true };
  });
  try {
    await app.listen({ port: 0, host: '127.0.0.1' });
    const address = app.addresses()[0]!;
    const answer = await fetch(`http://127.0.0.1:${address.port}/orders`, {
      method: 'POST',
      headers: { 'idempotency-key': 'k-1' },
      signal: AbortSignal.timeout(5_000),
    });
    expect(answer.status).toBe(503);
  } finally {
    await app.close();
  }
}, 20_000);
