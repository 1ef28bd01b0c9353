import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { expect, it } from 'vitest';
import { Random } from './random.ts';
import { startServer } from './running-program.ts';
import { scrape } from './scrape.ts';

const OPERATIONS = 10_000;
const AT_ONCE = 32;
const RECENT = 1_000;

it('[H17] of 10,000 operations with a tenth of them retries the hit rate is 0.09 to 0.11, and each runs once', async () => {
  const server = await startServer({ ONCEWARD_LOG_LEVEL: 'fatal' });
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
  const random = new Random(2);
  const recent: string[] = [];
  let sent = 0;
  let distinct = 0;

  const sendOne = async () => {
    const isRetry = recent.length > 0 && random.chance(0.1);
    const key = isRetry ? recent[random.below(recent.length)]! : randomUUID();
    if (!isRetry) distinct += 1;
    const { status, replayed } = await order(server.url, key, agent);
    expect([status, replayed]).toEqual([201, isRetry ? 'true' : 'false']);
    if (isRetry) return;
    recent.push(key);
    if (recent.length > RECENT) recent.shift();
  };
  const worker = async () => {
    while (sent < OPERATIONS) {
      sent += 1;
      await sendOne();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));

  const seen = await scrape(server.url);
  const hits =
    seen.get('onceward_hits_total{tier="near"}')! + seen.get('onceward_hits_total{tier="store"}')!;
  const misses = seen.get('onceward_misses_total')!;
  expect(hits + misses).toBe(OPERATIONS);
  expect(misses).toBe(distinct);
  const hitRate = hits / (hits + misses);
  expect(hitRate).toBeGreaterThan(0.09);
  expect(hitRate).toBeLessThan(0.11);
  const effects = await (await fetch(`${server.url}/demo/v1/effects`)).json();
  expect(effects).toEqual({ orders: distinct });
  agent.destroy();
  await server.stop();
});

function order(url: string, key: string, agent: Agent) {
  const headers = { 'content-type': 'application/json', 'idempotency-key': key };
  return new Promise<{ status: number | undefined; replayed: unknown }>((resolve, reject) => {
    const sending = request(`${url}/demo/v1/orders`, { method: 'POST', headers, agent });
    sending.on('error', reject);
    sending.on('response', (response) => {
      const { statusCode: status, headers: told } = response;
      response.resume();
      response.on('end', () => resolve({ status, replayed: told['idempotency-replayed'] }));
    });
    sending.end('{"item":"w","amount":1}');
  });
}
