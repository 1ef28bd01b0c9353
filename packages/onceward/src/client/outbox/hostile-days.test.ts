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
import { idempotentFetch, memoryStorage, openSnapshotStorage } from '../index.ts';
import type { Entry, OutboxStorage } from '../storages/outbox-storage.ts';

freshForEachTest();

/** Each of these answers once, in turn; then the server is itself. */
function answering(...answers: (() => Response)[]): typeof fetch {
  return async (input, init) => {
    const answer = answers.shift();
    if (answer === undefined) return server.fetch(input, init);
    await server.fetch(input, init);
    return answer();
  };
}

const status = (code: number, headers: Record<string, string> = {}) => {
  return () => new Response('', { status: code, headers });
};

/** The effect takes place and the answer is as good as lost. */
const cutOff = () =>
  new Response(
    new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"id":"id-'));
        controller.error(new TypeError('terminated'));
      },
    }),
    { status: 200, headers: { 'content-type': 'application/json' } },
  );

describe('answers that mislead', () => {
  it('[C4] a 200 that is cut off does not count; the next attempt has the same key', async () => {
    const outbox = life({ fetch: answering(cutOff) });
    const { id } = await outbox.enqueue(order('a'));
    await pass(5 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ state: 'done', answers: [{ replayed: true }] });
    expect(server.effects).toEqual(['a']);
  });

  it('[C5] 409, 425, 429 and 503 in turn end in one effect', async () => {
    const turns = [409, 425, 429, 503].map((code) => status(code, { 'retry-after': '1' }));
    const outbox = life({ fetch: answering(...turns) });
    const { id } = await outbox.enqueue(order('a'));
    await pass(90 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ state: 'done' });
    expect(server.effects).toEqual(['a']);
  });

  it('[C5] 409, 425, 429 and 503 without end: set aside as unknown, and a retry keeps the key', async () => {
    let turn = 0;
    const outbox = life({
      async fetch(input, init) {
        const answer = await server.fetch(input, init);
        turn += 1;
        return turn < 1_000 ? status([429, 503, 409, 425][turn % 4] as number)() : answer;
      },
    });
    const { id, key } = await outbox.enqueue(order('a'));
    await pass(10 * 60 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ outcome: 'unknown', steps: [{ key }] });
    turn = 1_000;
    await outbox.failed.retry(id);
    await pass(60 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ state: 'done', answers: [{ replayed: true }] });
    expect(server.effects).toEqual(['a']);
  });

  it.each([403, 404, 409])(
    '[C5] a %i after an attempt without an answer does not say that nothing happened',
    async (code) => {
      const outbox = life({ fetch: answering(status(502), status(code)) });
      const { id } = await outbox.enqueue(order('a'));
      await pass(60 * SECOND);
      expect(await outbox.find(id)).toMatchObject({ state: 'done', answers: [{ replayed: true }] });
      expect(server.effects).toEqual(['a']);
      const send = idempotentFetch({ fetch: answering(status(502), status(code)) });
      const sent = send('https://api.test/b', { method: 'POST', body: '{"item":"b"}' });
      await pass(60 * SECOND);
      expect((await sent).status).toBe(201);
    },
  );

  it.each([403, 404, 409])(
    '[C5] a %i that is all there ever is: refused at first, unknown after doubt, in a group too',
    async (code) => {
      const always = (first: () => Response) => {
        let calls = 0;
        return async () => (calls++ === 0 ? first() : status(code)());
      };
      const sure = life({ storage: memoryStorage(), fetch: always(status(code)) });
      const one = await sure.enqueue(order('a'));
      const unsure = life({ storage: memoryStorage(), fetch: always(status(502)) });
      const two = await unsure.enqueueGroup([{ ...order('b'), undo: order('b off') }, order('c')]);
      await pass(5 * 60 * SECOND);
      expect(await sure.find(one.id)).toMatchObject({ outcome: 'refused' });
      expect(await unsure.find(two.id)).toMatchObject({ outcome: 'unknown' });
    },
  );

  it.each([
    ['a year', `${365 * DAY}`],
    ['a date in a year', new Date(Date.now() + 365 * DAY).toUTCString()],
    ['more digits than a number has', '9'.repeat(400)],
    ['minus one', '-1'],
    ['nonsense', 'soon, I promise'],
    ['a fraction', '0.5'],
    ['nothing', ' '],
  ])('[C5] a Retry-After of %s delays an operation by an hour at most', async (_what, value) => {
    const outbox = life({
      fetch: answering(status(503, { 'retry-after': value })),
      replayWindowMs: DAY,
    });
    const { id } = await outbox.enqueue(order('a'));
    await pass(HOUR + 2 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ state: 'done' });
    expect(server.effects).toEqual(['a']);
  });
});

describe('a clock that jumps', () => {
  it('[C4] set back a day while something waits: sent at once, and once', async () => {
    const outbox = life();
    server.refuseNext(429);
    server.retryAfter = '600';
    const { id } = await outbox.enqueue(order('a'));
    await pass(SECOND);
    vi.setSystemTime(Date.now() - DAY);
    await pass(15 * 60 * SECOND);
    expect(await outbox.find(id)).toMatchObject({ state: 'done' });
    expect(server.effects).toEqual(['a']);
  });

  it('[C6] set back a day while an outcome is unknown: neither sent again nor lost', async () => {
    server.loseAnswers = 1;
    const first = life();
    const { id, key } = await first.enqueue(order('a'));
    await pass(SECOND);
    await first.close();
    vi.setSystemTime(Date.now() - DAY);
    const second = life();
    await pass(60 * SECOND);
    expect(await second.find(id)).toMatchObject({ outcome: 'unknown', steps: [{ key }] });
    expect(server.effects).toEqual(['a']);
    expect(server.requests).toHaveLength(1);
  });

  it('[C6] set back a day after a success: the key is still known', async () => {
    const outbox = life();
    await outbox.enqueue(order('a'), { key: 'k-1' });
    await pass(SECOND);
    vi.setSystemTime(Date.now() - DAY);
    await pass(2 * HOUR);
    expect(await outbox.enqueue(order('a'), { key: 'k-1' })).toMatchObject({ status: 'known' });
    await pass(SECOND);
    expect(server.effects).toEqual(['a']);
  });
});

describe('a storage that holds something else', () => {
  const GARBAGE: [string, unknown][] = [
    ['an object of another shape', { version: 3, payload: 'x' }],
    ['a text', 'left by an older version'],
    ['an operation without steps', { version: 1, id: 'default/0000000000000001', steps: [] }],
    ['an operation under another id', { version: 1, id: 'other/1', cursor: 0, steps: [{}] }],
  ];

  it.each(GARBAGE)(
    '[C4] %s at the head of a lane is set aside, and the lane goes on',
    async (_what, found) => {
      await storage.swap([
        { key: 'waiting/default/0000000000000001', next: found as Entry },
        { key: 'position', next: { version: 1, last: 1 } as Entry },
      ]);
      const outbox = life();
      const { id } = await outbox.enqueue(order('a'));
      await pass(SECOND);
      expect(await outbox.find(id)).toMatchObject({ state: 'done' });
      const failed = await listFailed(outbox);
      expect(failed).toMatchObject([
        { outcome: 'unknown', reason: 'cannot be read', lane: 'default' },
      ]);
      expect(await outbox.failed.discard(failed[0]?.id ?? '')).toBe(true);
    },
  );

  it('[C4] places that no operation can have do not keep the lanes behind them waiting', async () => {
    const old = life({ start: false });
    const { id } = await old.enqueue(order('a'), { lane: 'm' });
    const entry = { version: 1 };
    const places = ['waiting/1', 'waiting/a', 'waiting/l/x', 'waiting/l/~~', 'waiting/zz/\u00ff'];
    await storage.swap(places.map((key) => ({ key, next: entry })));
    const outbox = life();
    await pass(SECOND);
    expect(await outbox.find(id)).toMatchObject({ state: 'done' });
  });

  it('[C6] what cannot be read among the done and the failed does not stop the forgetting', async () => {
    const outbox = life();
    const { id } = await outbox.enqueue(order('a'));
    await storage.swap([
      { key: 'done/0', next: { version: 1, odd: true } as Entry },
      { key: 'failed/0', next: { version: 1, odd: true } as Entry },
    ]);
    await pass(26 * HOUR);
    expect(await outbox.find(id)).toBeNull();
    expect(await storage.count('done/')).toBe(1);
  });

  it('[C4] a storage that cannot even be read is a coded error, and nothing is sent', async () => {
    const newer = () => Promise.reject(new DOMException('a newer version exists', 'VersionError'));
    const outbox = life({ storage: { ...storage, read: newer, range: newer, swap: newer } });
    await expect(outbox.enqueue(order('a'))).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    await pass(60 * SECOND);
    expect(server.requests).toEqual([]);
  });

  it.each(['{"waiting/default/00', 'null?', '{"a":7}', '[1]'])(
    '[C4] a snapshot like %s is refused, and left as it is',
    async (text) => {
      const saved: string[] = [];
      const place = { load: async () => text, save: async (next: string) => void saved.push(next) };
      await expect(openSnapshotStorage(place)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
      expect(saved).toEqual([]);
    },
  );
});

describe('writes that fail', () => {
  it('[C4] a quota that is reached at every second write loses nothing and doubles nothing', async () => {
    let writes = 0;
    const tight: OutboxStorage = {
      ...storage,
      async swap(changes) {
        writes += 1;
        if (writes % 2 === 0) throw new DOMException('', 'QuotaExceededError');
        return storage.swap(changes);
      },
    };
    const outbox = life({ storage: tight });
    const kept: string[] = [];
    for (let i = 0; i < 20; i += 1) {
      const queued = await outbox.enqueue(order(`${i}`)).catch(() => null);
      if (queued !== null) kept.push(`${i}`);
    }
    await pass(HOUR);
    expect(kept.length).toBeGreaterThan(0);
    expect(server.effects).toEqual(kept);
  });

  it('[C4] a write that is made and then reported as failed does not queue twice', async () => {
    let isOdd = true;
    const odd: OutboxStorage = {
      ...storage,
      async swap(changes) {
        const won = await storage.swap(changes);
        if (won && isOdd) throw new Error('the disk went away');
        return won;
      },
    };
    const outbox = life({ storage: odd, start: false });
    await Promise.all(['a', 'b', 'c'].map((item) => outbox.enqueue(order(item))));
    isOdd = false;
    await outbox.drain();
    expect(server.effects).toEqual(['a', 'b', 'c']);
  });

  it('[C4] a body of ten megabytes is refused before it is copied', async () => {
    const outbox = life();
    const bytes = new Uint8Array(10_000_000);
    for (const body of [bytes, 'x'.repeat(10_000_000)]) {
      await expect(outbox.enqueue({ url: '/a', body })).rejects.toThrow(/10000000 is over/);
    }
    const json = { text: 'x'.repeat(10_000_000) };
    await expect(outbox.enqueue({ url: '/a', json })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
    await outbox.enqueue({ url: '/a', body: new Uint8Array(5_000_000) });
    await pass(SECOND);
    expect(server.requests[0]).toMatchObject({ body: { length: 5_000_000 } });
  });

  it('[C4] headers and addresses may come as the platform has them', async () => {
    const outbox = life();
    const headers = new Headers({ 'X-Tenant': 'acme' });
    await outbox.enqueue({ url: new URL('https://api.test/a'), headers, json: {} });
    await pass(SECOND);
    expect(server.requests[0]?.url).toBe('https://api.test/a');
    expect(server.requests[0]?.headers.get('x-tenant')).toBe('acme');
  });
});

describe('two tabs without a lock between them', () => {
  it('[C9] that race to queue and to send leave one effect each', async () => {
    const tabs = [life(), life(), life()];
    server.refuseNext(503, 429, 503);
    const items = Array.from({ length: 60 }, (_, i) => `${i}`);
    await Promise.all(items.map((item, i) => tabs[i % 3]?.enqueue(order(item), { lane: item })));
    await pass(10 * 60 * SECOND);
    expect([...server.effects].sort()).toEqual([...items].sort());
    expect(await storage.count('waiting/')).toBe(0);
    expect(await storage.count('done/')).toBe(60);
  });
});
