import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Random } from './random.ts';
import { type RunningGateway, startGateway } from './running-gateway.ts';
import { UpstreamServer } from './upstream-server.ts';

/** Change it to see other traffic. */
const SEED = 20_261_118;
const ROUNDS = 600;
const CLIENTS = 20;

const upstream = new UpstreamServer();
let gateway: RunningGateway;
beforeAll(async () => {
  // A small budget, so that clients often wait for room.
  const env = { ONCEWARD_BUFFER_BYTES: '4194304', ONCEWARD_DRAIN_SECONDS: '5' };
  gateway = await startGateway(['--upstream', await upstream.listen()], env);
});
afterAll(() => upstream.close());

let keys = 0;

/** A request of any kind. A key that comes again comes with the same method, path and body. */
function anyRequest(random: Random): Buffer {
  const number = random.chance(0.7) ? (keys += 1) : random.below(keys + 1);
  const of = new Random(number);
  const path = of.pick(['/orders', '/sized?bytes=900000', '/chunked', '/events', '/failing']);
  const length = of.pick([0, 5, 3_000, 200_000]);
  const body = Buffer.alloc(length, 'x');
  const lines = [`POST ${path} HTTP/1.1`, 'Host: a', `Idempotency-Key: random-${number}`];
  if (random.chance(0.1))
    lines.push('Connection: Upgrade', `Upgrade: ${random.pick(['h2c', 'x'])}`);
  if (random.chance(0.1)) lines.push('Expect: 100-continue');
  if (random.chance(0.5)) {
    const head = `${lines.join('\r\n')}\r\nContent-Length: ${length}\r\n\r\n`;
    return Buffer.concat([Buffer.from(head), body]);
  }
  const head = `${lines.join('\r\n')}\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const chunk = [Buffer.from(`${length.toString(16)}\r\n`), body, Buffer.from('\r\n')];
  const chunks = length === 0 ? [] : chunk;
  return Buffer.concat([Buffer.from(head), ...chunks, Buffer.from('0\r\n\r\n')]);
}

/** One client: some requests at once, whole or cut short, read or not, and it leaves when it likes. */
async function anyClient(random: Random): Promise<void> {
  const { socket } = await gateway.open();
  if (random.chance(0.3)) socket.pause();
  const count = 1 + random.below(random.chance(0.8) ? 2 : 12);
  const bytes = Buffer.concat(Array.from({ length: count }, () => anyRequest(random)));
  const sent = random.chance(0.3) ? random.below(bytes.length) : bytes.length;
  const step = random.chance(0.6) ? bytes.length : 1 + random.below(bytes.length);
  for (let at = 0; at < sent; at += step) {
    socket.write(bytes.subarray(at, Math.min(sent, at + step)));
    if (random.chance(0.5)) await sleep(random.below(10));
  }
  if (random.chance(0.05)) socket.write('this is not HTTP\r\n\r\n');
  await sleep(random.below(random.chance(0.8) ? 150 : 600));
  if (random.chance(0.3)) socket.end();
  else if (random.chance(0.5)) socket.resetAndDestroy();
  if (random.chance(0.5)) await sleep(50);
  socket.destroy();
}

describe('[H15] rough traffic without plan', () => {
  it(`of seed ${SEED} costs the gateway neither its life nor its room, and runs nothing twice`, async () => {
    const random = new Random(SEED);
    let round = 0;
    const clients = Array.from({ length: CLIENTS }, async () => {
      while ((round += 1) <= ROUNDS) await anyClient(new Random(random.below(2 ** 31)));
    });
    await Promise.all(clients);
    await sleep(1_500);
    const began = performance.now();
    const last = await fetch(`${gateway.url}/orders`, {
      method: 'POST',
      body: Buffer.alloc(500_000),
      headers: { 'idempotency-key': 'the-last' },
    });
    expect(last.status).toBe(201);
    expect(performance.now() - began).toBeLessThan(2_000);

    const runs = new Map<unknown, number>();
    for (const { url, headers } of upstream.seen) {
      // A failure is not kept: it may run again.
      if (url === '/failing') continue;
      const key = headers['idempotency-key'];
      runs.set(key, (runs.get(key) ?? 0) + 1);
    }
    expect(runs.size).toBeGreaterThan(ROUNDS / 4);
    expect([...runs].filter(([, count]) => count > 1)).toEqual([]);
    expect(await gateway.stop()).toMatchObject({ code: 0 });
  }, 180_000);
});
