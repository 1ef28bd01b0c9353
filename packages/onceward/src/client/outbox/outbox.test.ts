import { describe, expect, it, vi } from 'vitest';
import {
  DAY,
  freshForEachTest,
  HOUR,
  life,
  listFailed,
  order,
  pass,
  SECOND,
  server,
  storage,
} from '../../../test/client/lives.ts';
import { ClientError, type Outbox, type OutboxEvent } from '../index.ts';
import type { OutboxStorage } from '../storages/outbox-storage.ts';

freshForEachTest();

describe('outbox', () => {
  it('[C4] an operation is stored with its key before anything is sent', async () => {
    server.holdBack = true;
    const first = life();
    const { id, key } = await first.enqueue(order('a'));
    expect(await first.find(id)).toMatchObject({ state: 'waiting', steps: [{ key }] });
    await pass(1);
    expect(server.requests.map((request) => request.key)).toEqual([key]);
  });

  it('[C4] nothing is sent if it could not be stored', async () => {
    const full = {
      ...storage,
      swap: async () => Promise.reject(new DOMException('', 'QuotaExceededError')),
    };
    const outbox = life({ storage: full });
    await expect(outbox.enqueue(order('a'))).rejects.toMatchObject({ code: 'STORAGE_FULL' });
    await pass(HOUR);
    expect(server.requests).toEqual([]);
  });

  it('[C4] the next process sends what the last one left, under the same key', async () => {
    server.loseAnswers = 1;
    const first = life();
    const { id, key } = await first.enqueue(order('a'));
    await pass(1);
    await first.close();
    const second = life();
    expect(await second.whenSettled(id)).toMatchObject({ state: 'done', keys: [key] });
    expect(server.effects).toEqual(['a']);
    expect(server.requests.length).toBeGreaterThan(1);
  });

  it('[C4] operations of one lane happen in order, also when the first has trouble', async () => {
    server.refuseNext(503, 503);
    const outbox = life();
    for (const item of ['a', 'b', 'c']) await outbox.enqueue(order(item), { lane: 'one' });
    await pass(60_000);
    expect(server.effects).toEqual(['a', 'b', 'c']);
  });

  it('[C4] lanes do not wait for each other', async () => {
    server.refuseItem('slow', 503);
    const outbox = life();
    await outbox.enqueue(order('slow'), { lane: 'one' });
    await outbox.enqueue(order('b'), { lane: 'two' });
    await pass(10);
    expect(server.effects).toEqual(['b']);
  });

  it('[C5] an operation that is turned away five times is set aside, and the lane goes on', async () => {
    server.refuseItem('bad', 408, { title: 'too slow' });
    const outbox = life();
    const { id, key } = await outbox.enqueue(order('bad'));
    await outbox.enqueue(order('good'));
    await pass(10 * 60_000);
    expect(server.requests.filter((request) => request.item === 'bad')).toHaveLength(5);
    expect(server.effects).toEqual(['good']);
    const [failed] = await listFailed(outbox);
    expect(failed).toMatchObject({ id, outcome: 'refused', attempts: 5, steps: [{ key }] });
  });

  it('[C5] a server that cannot be reached uses up no attempts', async () => {
    server.unreachable = true;
    const outbox = life({ replayWindowMs: DAY });
    const { id } = await outbox.enqueue(order('a'));
    await pass(6 * HOUR);
    expect(await outbox.find(id)).toMatchObject({ state: 'waiting', attempts: 0 });
    server.unreachable = false;
    await pass(2 * 60_000);
    expect(await outbox.find(id)).toMatchObject({ state: 'done' });
  });

  it('[C5] a 401 is refreshed once; if that does not help, the outbox pauses and loses nothing', async () => {
    const refresh = vi.fn(async () => true);
    server.refuseNext(401);
    const outbox = life({ auth: { headers: () => ({ authorization: 'Bearer t' }), refresh } });
    await outbox.enqueue(order('a'));
    await pass(10);
    expect(server.effects).toEqual(['a']);
    expect(refresh).toHaveBeenCalledTimes(1);

    server.refuseNext(401, 401);
    await outbox.enqueue(order('b'));
    await pass(HOUR);
    expect(server.effects).toEqual(['a']);
    expect(outbox.status.getSnapshot()).toMatchObject({ paused: 'auth', waiting: 1 });
    await outbox.resume();
    await pass(10);
    expect(server.effects).toEqual(['a', 'b']);
  });

  it('[C5] without credentials nothing is sent, and it is tried again', async () => {
    let locked = true;
    const headers = async () => {
      if (locked) throw new Error('the keychain is locked');
      return { authorization: 'Bearer t' };
    };
    const outbox = life({ auth: { headers } });
    const { id } = await outbox.enqueue(order('a'));
    await pass(60_000);
    expect(server.requests).toEqual([]);
    expect(await outbox.find(id)).toMatchObject({
      unsettledSince: null,
      problem: 'no credentials',
    });
    locked = false;
    await pass(60_000);
    expect(server.effects).toEqual(['a']);
  });

  it('[C5] Retry-After is waited for, up to an hour', async () => {
    for (const [seconds, minutes] of [
      [1_200, 20],
      [90_000, 60],
    ] as const) {
      server.refuseNext(503);
      server.retryAfter = String(seconds);
      const outbox = life({ replayWindowMs: DAY });
      const { id } = await outbox.enqueue(order(`${seconds}`));
      await pass((minutes - 1) * 60_000);
      expect(await outbox.find(id)).toMatchObject({ state: 'waiting', attempts: 0 });
      await pass(2 * 60_000);
      expect(await outbox.find(id)).toMatchObject({ state: 'done' });
    }
  });

  it('[C5] credentials are sent and never stored', async () => {
    const outbox = life({ auth: { headers: async () => ({ authorization: 'Bearer secret' }) } });
    await expect(
      outbox.enqueue({ ...order('a'), headers: { Authorization: 'Bearer secret' } }),
    ).rejects.toThrow(/is a credential/);
    const { id } = await outbox.enqueue(order('a'));
    await pass(10);
    expect(server.requests[0]?.headers.get('authorization')).toBe('Bearer secret');
    expect(JSON.stringify(await outbox.find(id))).not.toContain('secret');
  });

  it('[C6] a success is remembered for a day, though the server has forgotten it', async () => {
    const outbox = life();
    await outbox.enqueue(order('a'), { key: 'order-1' });
    await pass(10);
    server.forgetKeys();
    await pass(23 * HOUR);
    const again = await outbox.enqueue(order('a'), { key: 'order-1' });
    expect(again).toMatchObject({ status: 'known', state: 'done' });
    await pass(10);
    expect(server.effects).toEqual(['a']);
    await pass(3 * HOUR);
    expect(await outbox.findByKey('order-1')).toBeNull();
  });

  it('[C6] what was sent without an answer is not sent again once the server may have forgotten it', async () => {
    server.loseAnswers = 1;
    const first = life({ replayWindowMs: 5 * 60_000 });
    const { id } = await first.enqueue(order('a'));
    await pass(1);
    await first.close();
    await pass(10 * 60_000);
    server.forgetKeys();
    const second = life({ replayWindowMs: 5 * 60_000 });
    await pass(HOUR);
    expect(server.effects).toEqual(['a']);
    expect(await second.find(id)).toMatchObject({ state: 'failed', outcome: 'unknown' });
  });

  it('[C6] a key that is used for another request is refused', async () => {
    const outbox = life();
    await outbox.enqueue(order('a'), { key: 'order-1' });
    const other = outbox.enqueue(order('b'), { key: 'order-1' });
    await expect(other).rejects.toThrow(/used for another request/);
    await expect(outbox.enqueue(order('c'), { key: '' })).rejects.toThrow(/1 to 255/);
    await expect(outbox.enqueueGroup([order('c')], { key: '' })).rejects.toThrow(/1 to 255/);
    await expect(outbox.enqueue(order('c'), { key: 'no spaces' })).rejects.toThrow(/visible ASCII/);
  });

  it('[C4] what is queued at once is stored in one write, in order', async () => {
    let writes = 0;
    const counting = {
      ...storage,
      swap: async (changes: Parameters<typeof storage.swap>[0]) => {
        writes += 1;
        return storage.swap(changes);
      },
    };
    const outbox = life({ storage: counting, start: false });
    const queued = await Promise.all(
      Array.from({ length: 40 }, (_, i) => outbox.enqueue(order(`${i}`))),
    );
    expect(writes).toBe(1);
    expect(queued.map(({ id }) => id)).toEqual(queued.map(({ id }) => id).sort());
  });

  it('[C9] tabs that queue in turn never give an id twice, and keep the order', async () => {
    const tabs = [life({ start: false }), life({ start: false })];
    const queued = [];
    for (let i = 0; i < 20; i += 1) {
      const both = tabs.map((tab) => tab.enqueue(order(`${i}`)));
      queued.push(...(i % 3 === 0 ? await Promise.all(both) : [await both[0], await both[1]]));
    }
    expect(new Set(queued.map((one) => one?.id)).size).toBe(40);
    await tabs[0]?.drain();
    expect(server.effects.map(Number)).toEqual(Array.from({ length: 40 }, (_, i) => i >> 1));
  });

  it('[C4] bad requests are refused before anything is stored', async () => {
    const outbox = life();
    const bad: [Parameters<Outbox['enqueue']>, RegExp][] = [
      [[{ url: '' }], /url is missing/],
      [[{ url: '/a', method: 'GET' }], /call fetch/],
      [[{ url: '/a', method: 'PO ST' }], /method/],
      [[{ url: '/a', json: 1, body: 'x' }], /both/],
      [[{ url: '/a', json: () => 1 }], /not a JSON value/],
      [[{ url: '/a', headers: { 'idempotency-key': 'k' } }], /give it as key/],
      [[{ url: '/a', body: 'x'.repeat(6_000_000) }], /6000000 is over 5242880/],
      [[{ url: '/a', jsn: { item: 'a' } } as never], /jsn is not an option of method,url/],
      [[{ url: '/a' }, { lan: 'a' } as never], /lan is not an option of lane/],
      [[{ url: '/a' }, { lane: '' }], /lane: 1 to 255/],
      [[{ url: '/a' }, { lane: '\ud800' }], /whole characters/],
    ];
    for (const [args, message] of bad)
      await expect(outbox.enqueue(...args)).rejects.toThrow(message);
    expect(await storage.count('')).toBe(0);
  });

  it('[C4] bytes arrive as bytes', async () => {
    const outbox = life();
    const body = Uint8Array.from({ length: 256 }, (_, i) => i);
    await outbox.enqueue({ url: '/blob', body });
    await pass(10);
    expect(server.requests[0]?.body).toEqual(body);
  });

  it('[C4] events and status report how far it is', async () => {
    const outbox = life();
    const events: OutboxEvent['type'][] = [];
    const seen: number[] = [];
    outbox.subscribe((event) => events.push(event.type));
    outbox.status.subscribe(() => seen.push(outbox.status.getSnapshot().waiting));
    await outbox.pause();
    await outbox.enqueue(order('a'));
    await pass(100);
    expect(outbox.status.getSnapshot()).toMatchObject({
      waiting: 1,
      paused: 'user',
      running: true,
    });
    const same = outbox.status.getSnapshot();
    await pass(100);
    expect(outbox.status.getSnapshot()).toBe(same);
    await outbox.resume();
    await pass(100);
    expect(outbox.status.getSnapshot()).toMatchObject({ waiting: 0, sending: 0, paused: null });
    expect(events).toEqual(['paused', 'queued', 'resumed', 'sending', 'done']);
    expect(seen).toContain(1);
  });

  it('[C4] a pause ends within half a minute when the tab that resumed died before it could say so', async () => {
    const outbox = life();
    await outbox.pause();
    await outbox.enqueue(order('a'));
    // It stores the change and posts no notice: tabs get notices only where there is a channel.
    await life({ start: false }).resume();
    await pass(1);
    expect(server.effects).toEqual([]);
    await pass(30 * SECOND);
    expect(server.effects).toEqual(['a']);
    await pass(100);
    expect(outbox.status.getSnapshot()).toMatchObject({ paused: null });
  });

  it('[C4] a full storage does not lose an answer that has come', async () => {
    let full = false;
    const failing = {
      ...storage,
      swap: async (changes: Parameters<typeof storage.swap>[0]) => {
        if (full) throw new DOMException('full', 'QuotaExceededError');
        return storage.swap(changes);
      },
    };
    const outbox = life({ storage: failing });
    server.holdBack = true;
    const { id } = await outbox.enqueue(order('a'));
    await pass(10);
    full = true;
    server.release();
    await pass(60_000);
    full = false;
    await pass(60_000);
    expect(await outbox.find(id)).toMatchObject({ state: 'done' });
    expect(server.requests).toHaveLength(1);
  });

  it('[C5] a storage that fails while the circuit is tried again does not shut the server out', async () => {
    let failing = false;
    const flaky: OutboxStorage = {
      ...storage,
      swap: async (changes) => {
        if (failing) throw new Error('the disk is gone');
        return storage.swap(changes);
      },
    };
    const breaker = { failures: 1, windowMs: 60_000, openMs: 10_000 };
    const outbox = life({ storage: flaky, breaker, retry: { maxAttempts: 1 } });
    server.refuseNext(500);
    await outbox.enqueue(order('opens the circuit'));
    await pass(10);
    const { id } = await outbox.enqueue(order('a'));
    failing = true;
    await pass(15_000);
    failing = false;
    await pass(5 * 60_000);
    expect(await outbox.find(id)).toMatchObject({ state: 'done' });
  });

  it('[C4] a clock that is set back does not make it wait for ever', async () => {
    server.refuseNext(503);
    const outbox = life();
    const { id } = await outbox.enqueue(order('a'));
    await pass(1);
    vi.setSystemTime(Date.now() - 48 * HOUR);
    await pass(2 * 60_000);
    expect(await outbox.find(id)).not.toMatchObject({ state: 'waiting' });
  });

  it('[C4] a closed outbox says so', async () => {
    const outbox = life();
    await outbox.close();
    await expect(outbox.enqueue(order('a'))).rejects.toBeInstanceOf(ClientError);
  });
});
