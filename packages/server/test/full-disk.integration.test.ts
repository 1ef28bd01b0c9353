import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postJson, startServer } from './running-program.ts';
import { scrape } from './scrape.ts';
import { SmallDisk } from './small-disk.ts';

const disk = new SmallDisk('6m');
afterAll(() => disk.remove());

// Without the right to mount there is no small disk to fill.
describe.skipIf(!disk.isThere)('a server whose disk is full', () => {
  let server: Awaited<ReturnType<typeof startServer>>;
  const data = join(disk.path, 'data');
  beforeAll(async () => {
    server = await startServer({ ONCEWARD_DATA: data });
  }, 60_000);
  afterAll(() => server?.stop());

  const order = (key: string) =>
    postJson(
      `${server.url}/demo/v1/orders`,
      { item: 'widget '.repeat(10), amount: 1 },
      { 'idempotency-key': key },
    );
  const effects = async () =>
    ((await (await fetch(`${server.url}/demo/v1/effects`)).json()) as { orders: number }).orders;
  const isUp = async () => (await scrape(server.url)).get('onceward_store_up');

  it('[E12] says so by readiness and metrics, refuses, and goes on by itself when there is room', async () => {
    const placed = new Map<string, string>();
    const place = async (key: string) => {
      const answer = await order(key);
      const text = await answer.text();
      if (answer.status === 201) placed.set(key, text);
      return answer;
    };
    for (let n = 0; n < 20; n += 1) expect((await place(`before-${n}`)).status).toBe(201);
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
    expect(await isUp()).toBe(1);

    disk.fillUp();
    await expect
      .poll(async () => (await place(`full-${placed.size}`)).status, { timeout: 20_000 })
      .toBe(503);
    for (let n = 0; n < 10; n += 1) {
      const refused = await place(`refused-${n}`);
      expect(refused.status).toBe(503);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    }
    const notReady = await fetch(`${server.url}/readyz`);
    expect(notReady.status).toBe(503);
    expect(await notReady.json()).toMatchObject({
      detail: expect.stringMatching(/disk .* is full/),
    });
    expect(await isUp()).toBe(0);
    // It lives, and what it has it still gives.
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
    expect((await order('before-0')).headers.get('idempotency-replayed')).toBe('true');

    disk.makeRoom();
    await expect
      .poll(async () => (await fetch(`${server.url}/readyz`)).status, { timeout: 10_000 })
      .toBe(200);
    expect(await isUp()).toBe(1);
    for (let n = 0; n < 10; n += 1) expect((await place(`refused-${n}`)).status).toBe(201);
    expect(await effects()).toBe(placed.size);

    // An order that was placed when its answer could not be written any more: that is made up for.
    for (const key of placed.keys()) {
      await expect
        .poll(async () => (await order(key)).headers.get('idempotency-replayed'), {
          timeout: 20_000,
        })
        .toBe('true');
    }
    expect(await effects()).toBe(placed.size);

    await server.stop();
    server = await startServer({ ONCEWARD_DATA: data });
    for (const [key, text] of placed) {
      const again = await order(key);
      expect([key, again.headers.get('idempotency-replayed')]).toEqual([key, 'true']);
      expect(await again.text()).toBe(text);
    }
  }, 120_000);
});
