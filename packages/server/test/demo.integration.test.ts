import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postJson, startServer, temporaryFolder } from './running-program.ts';

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

let keys = 0;
const newKey = () => `demo-${(keys += 1)}`;

function order(query: string, key: string | null, headers: Record<string, string> = {}) {
  return postJson(
    `${server.url}/demo/v1/orders${query}`,
    { item: 'widget', amount: 4098 },
    key === null ? headers : { 'idempotency-key': key, ...headers },
  );
}

async function effects(): Promise<number> {
  const response = await fetch(`${server.url}/demo/v1/effects`);
  return ((await response.json()) as { orders: number }).orders;
}

describe('[U1] the demo orders API', () => {
  it('[H4] places an order once, however often it is sent, and says which answer is a replay', async () => {
    const key = newKey();
    const before = await effects();
    const first = await order('', key);
    expect(first.status).toBe(201);
    expect(first.headers.get('idempotency-replayed')).toBe('false');
    const placed = await first.json();
    expect(placed).toMatchObject({ order_id: expect.any(String), item: 'widget', amount: 4098 });
    const second = await order('', key);
    expect(second.status).toBe(201);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    expect(second.headers.get('idempotency-replay-count')).toBe('1');
    expect(second.headers.get('x-idempotency-key')).toBe(key);
    expect(await second.json()).toEqual(placed);
    expect(await effects()).toBe(before + 1);
  });

  it('runs one of many that arrive at once, and gives all its answer', async () => {
    const key = newKey();
    const before = await effects();
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => order('?delay_ms=300', key)),
    );
    const bodies = new Set(await Promise.all(answers.map((answer) => answer.text())));
    expect(bodies.size).toBe(1);
    expect(await effects()).toBe(before + 1);
  });

  it('keeps users apart', async () => {
    const key = newKey();
    const ann = await (await order('', key, { 'x-demo-user': 'ann' })).json();
    const bob = await (await order('', key, { 'x-demo-user': 'bob' })).json();
    expect(bob).not.toEqual(ann);
  });

  it('refuses the same key with another order', async () => {
    const key = newKey();
    await order('', key);
    const other = await postJson(
      `${server.url}/demo/v1/orders`,
      { item: 'gadget', amount: 1 },
      { 'idempotency-key': key },
    );
    expect(other.status).toBe(422);
    expect(await other.json()).toMatchObject({
      type: expect.stringMatching(/payload-mismatch$/),
      retry: 'new_key',
    });
  });

  it('replays random bytes as they were', async () => {
    const key = newKey();
    const first = Buffer.from(await (await order('?bytes=100000', key)).arrayBuffer());
    const second = Buffer.from(await (await order('?bytes=100000', key)).arrayBuffer());
    expect(first.length).toBe(100_000);
    expect(second.equals(first)).toBe(true);
  });

  it('streams chunks and does not keep them', async () => {
    const key = newKey();
    const first = await order('?stream=3', key);
    expect(await first.text()).toBe('chunk 1\nchunk 2\nchunk 3\n');
    const second = await order('?stream=3', key);
    expect(second.status).toBe(409);
    expect(await second.json()).toMatchObject({
      type: expect.stringMatching(/response-not-retained$/),
      original_status: 201,
    });
  });

  it('answers with any status, and keeps it by the rules of the profile', async () => {
    const kept = newKey();
    expect((await order('?status=404', kept)).status).toBe(404);
    const replay = await order('?status=404', kept);
    expect([replay.status, replay.headers.get('idempotency-replayed')]).toEqual([404, 'true']);
    const released = newKey();
    expect((await order('?status=503', released)).status).toBe(503);
    const again = await order('?status=503', released);
    expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([503, 'false']);
  });

  it('throws as a 500 without a word of why, and frees the key', async () => {
    const key = newKey();
    const first = await order('?throw=1', key);
    expect(first.status).toBe(500);
    expect(first.headers.get('content-type')).toBe('application/problem+json');
    expect(await first.text()).not.toMatch(/asked to throw|\.ts|at /);
    expect((await order('?throw=1', key)).headers.get('idempotency-replayed')).toBe('false');
  });

  it('comes in doubt when the process of the handler dies, and does not run again', async () => {
    const key = newKey();
    const before = await effects();
    const first = await order('?crash=1', key);
    expect(first.status).toBe(409);
    expect(await effects()).toBe(before + 1);
    const second = await order('?crash=1', key);
    expect(second.status).toBe(409);
    expect(await second.json()).toMatchObject({
      type: expect.stringMatching(/outcome-unknown$/),
      retry: 'same_key',
      happened: 'unknown',
    });
    expect(await effects()).toBe(before + 1);
  });

  it('answers this machine alone', async () => {
    const response = await order('', newKey(), { 'x-forwarded-for': '192.0.2.1' });
    expect(response.status).toBe(403);
  });

  for (const [what, query, body] of [
    ['a knob that is no number', '?delay_ms=soon', { item: 'a', amount: 1 }],
    ['an unknown knob', '?speed=1', { item: 'a', amount: 1 }],
    ['an order without an item', '', { amount: 1 }],
    ['an amount with a fraction', '', { item: 'a', amount: 1.5 }],
    ['a field too many', '', { item: 'a', amount: 1, gift: true }],
  ] as const) {
    it(`refuses ${what} and keeps nothing`, async () => {
      const key = newKey();
      const response = await postJson(`${server.url}/demo/v1/orders${query}`, body, {
        'idempotency-key': key,
      });
      expect(response.status).toBe(400);
      expect(response.headers.get('content-type')).toBe('application/problem+json');
      expect((await order('', key)).status).toBe(201);
    });
  }
});

describe('[U1] after a restart', () => {
  it('a kill -9 forgets no answer, and an order that was running is in doubt', async () => {
    const folder = temporaryFolder();
    const first = await startServer({ ONCEWARD_DATA: folder.path });
    const key = newKey();
    const place = (url: string, query: string, key: string) =>
      postJson(
        `${url}/demo/v1/orders${query}`,
        { item: 'w', amount: 1 },
        { 'idempotency-key': key },
      );
    const placed = await (await place(first.url, '', key)).json();
    const running = newKey();
    const lost = place(first.url, '?delay_ms=30000', running).catch(() => null);
    await new Promise((resolve) => setTimeout(resolve, 300));
    await first.program.stop('SIGKILL');
    await lost;

    const again = await startServer({ ONCEWARD_DATA: folder.path });
    const replay = await place(again.url, '', key);
    expect(replay.headers.get('idempotency-replayed')).toBe('true');
    expect(await replay.json()).toEqual(placed);
    const doubtful = await place(again.url, '?delay_ms=30000', running);
    expect(doubtful.status).toBe(409);
    expect(await doubtful.json()).toMatchObject({
      type: expect.stringMatching(/outcome-unknown$/),
    });
    const count = await (await fetch(`${again.url}/demo/v1/effects`)).json();
    expect(count).toEqual({ orders: 1 });
    await again.stop();
    folder.remove();
  });
});
