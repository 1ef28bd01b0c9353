// A server in its own process: Fastify on Redis. It notifies its parent when a handler runs and goes on when asked.
import Fastify from 'fastify';
import { idempotency } from '../../src/doors/fastify.ts';
import { openRedisStore } from '../../src/stores/redis/index.ts';

const [redisUrl = '', name = '', onLapse = 'in_doubt', leaseMs = '60000'] = process.argv.slice(2);
const store = await openRedisStore({ url: redisUrl });
const gate = new Promise<void>((resolve) => {
  process.once('message', () => resolve());
});

const app = Fastify();
app.register(idempotency, {
  store,
  scopeFrom: () => 'ada',
  effect: { kind: 'external', onLapse: onLapse as 'in_doubt' | 'take_over' },
  policy: { leaseMs: Number(leaseMs), waitMs: 20_000 },
});
app.post('/orders', async () => {
  process.send?.('running');
  await gate;
  return { by: name };
});
process.send?.(await app.listen({ port: 0, host: '127.0.0.1' }));
