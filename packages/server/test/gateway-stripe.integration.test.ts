import { afterAll, beforeAll, expect, it } from 'vitest';
import { RunningGateways } from './running-gateways.ts';
import { UpstreamServer } from './upstream-server.ts';

const upstream = new UpstreamServer();
const gateways = new RunningGateways();
let upstreamUrl: string;
beforeAll(async () => {
  upstreamUrl = await upstream.listen();
});
afterAll(async () => {
  await gateways.stop();
  await upstream.close();
});

it('[H22] a gateway with --profile stripe keeps failures and marks replays as Stripe does', async () => {
  const gateway = await gateways.start(['--upstream', upstreamUrl, '--profile', 'stripe']);
  for (const key of ['order #7: 1/2', 'k'.repeat(255)]) {
    const original = await gateway.post('/failing', key);
    expect([original.status, original.headers.get('idempotent-replayed')]).toEqual([500, null]);
    const replay = await gateway.post('/failing', key);
    expect([replay.status, replay.headers.get('idempotent-replayed')]).toEqual([500, 'true']);
    expect(replay.headers.get('idempotency-replayed')).toBe('true');
    expect(await replay.text()).toBe(await original.text());
  }
  expect(upstream.count('/failing')).toBe(2);
  expect((await gateway.post('/failing', 'k'.repeat(256))).status).toBe(400);
});

it('[H22] what the upstream never got is not kept, in profile stripe either', async () => {
  const gone = new UpstreamServer();
  const url = await gone.listen();
  await gone.close();
  const gateway = await gateways.start(['--upstream', url, '--profile', 'stripe']);
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const refused = await gateway.post('/x', 'k');
    expect(refused.status).toBe(502);
    expect(refused.headers.get('idempotent-replayed')).toBeNull();
  }
});
