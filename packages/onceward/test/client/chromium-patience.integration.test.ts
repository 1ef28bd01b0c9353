import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { BrowserRig, bundlePage, until } from './browser-rig.ts';
import { type Files, type OrdersServer, startOrdersServer } from './orders-server.ts';

let files: Files;
let server: OrdersServer;
let rig: BrowserRig;

beforeAll(async () => {
  files = await bundlePage();
});
beforeEach(async () => {
  server = await startOrdersServer(files);
  rig = await BrowserRig.start(server.url);
  return async () => {
    await rig.stop();
    await server.close();
  };
});

describe('a server that is busy', () => {
  it('[C18] a rate limit delays operations and fails none, and its origin is paced', async () => {
    server.behave({ perSecond: 4 });
    const tab = await rig.openTab();
    const states = await tab.evaluate(async () => {
      const outbox = page.open();
      const ends = Array.from({ length: 24 }, async (_, i) => {
        const { id } = await outbox.enqueue(page.order(`${i}`), { lane: `${i}` });
        return (await outbox.whenSettled(id))?.state;
      });
      return Promise.all(ends);
    });
    expect(states).toEqual(Array(24).fill('done'));
    expect([...server.effects().values()]).toEqual(Array(24).fill(1));
    const requests = [...server.requests().values()].reduce((sum, count) => sum + count, 0);
    expect(requests).toBeLessThan(2 * 24);
  });

  it('[C18] minutes of 503 make nothing unknown', async () => {
    server.behave({ status: 503 });
    const tab = await rig.openTab();
    await tab.evaluate(async () => {
      const breaker = { failures: 1_000, windowMs: 1_000, openMs: 100 };
      globalThis.outbox = page.open({ retry: { baseMs: 20, capMs: 40 }, breaker });
      await globalThis.outbox.enqueue(page.order('patient'));
    });
    await until('it was tried often', () => (server.requests().get('patient') ?? 0) > 30);
    server.behave();
    await until('it was sent', () => server.effects().size === 1);
    expect(await tab.evaluate(() => page.count('failed'))).toBe(0);
  });

  it('[C18] an operation that has to wait long is tried at once when someone says so', async () => {
    server.behave({ status: 503 });
    const tab = await rig.openTab();
    await tab.evaluate(async () => {
      globalThis.outbox = page.open({ retry: { baseMs: 600_000, capMs: 600_000 } });
      const { id } = await globalThis.outbox.enqueue(page.order('now'));
      Object.assign(globalThis, { id });
    });
    await until('it was tried', () => server.requests().has('now'));
    server.behave();
    await until('it is tried again', () =>
      tab.evaluate(async () => {
        const { id } = globalThis as unknown as { id: string };
        await globalThis.outbox?.retryNow(id);
        return (await globalThis.outbox?.find(id))?.state === 'done';
      }),
    );
    expect(server.effects().get('now')).toBe(1);
  });
});

describe('what can never be sent', () => {
  it('[C18] is refused when it is queued, with a code and what is wrong', async () => {
    const tab = await rig.openTab();
    const told = await tab.evaluate(async () => {
      const outbox = page.open({ start: false });
      const form = new FormData();
      const bad: Record<string, unknown> = {
        'no url': { json: {} },
        'no request': undefined,
        'a bad url': { url: 'http://[' },
        'a url with a password': { url: 'https://a:b@example.com/' },
        'another protocol': { url: 'ftp://example.com/' },
        'a method of its own': { url: '/a', method: 'TRACE' },
        'a header of two lines': { url: '/a', headers: { 'x-a': 'b\nc' } },
        'a form': { url: '/a', body: form },
        'a BigInt': { url: '/a', json: { n: 1n } },
        'a circle': { url: '/a', json: globalThis },
      };
      const codes: Record<string, string> = {};
      for (const [what, request] of Object.entries(bad)) {
        codes[what] = await outbox.enqueue(request as never).then(
          () => 'queued',
          (error) => error.code,
        );
      }
      return { codes, waiting: await page.count('waiting') };
    });
    expect(new Set(Object.values(told.codes))).toEqual(new Set(['INVALID_INPUT']));
    expect(told.waiting).toBe(0);
  });

  it('[C18] credentials are refused by their usual names, with a message where they belong', async () => {
    const names = [
      'Authorization',
      'Proxy-Authorization',
      'Cookie',
      'X-Api-Key',
      'X-Api-Secret',
      'X-Auth-Token',
      'X-Access-Token',
      'X-CSRF-Token',
      'X-CSRFToken',
      'X-XSRF-TOKEN',
      'X-Amz-Security-Token',
      'X-Session-Id',
      'apikey',
    ];
    const tab = await rig.openTab();
    const messages = await tab.evaluate(async (names) => {
      const outbox = page.open({ start: false });
      const queue = (name: string) =>
        outbox.enqueue({ url: '/a', headers: [[name, 'x']] }).then(
          () => 'queued',
          (error) => String(error.message),
        );
      const told: Record<string, string> = {};
      for (const name of [...names, 'X-Author', 'X-Tenant', 'X-Request-Id', 'Accept']) {
        told[name] = await queue(name);
      }
      return told;
    }, names);
    const refused = Object.entries(messages).filter(([, told]) => told.includes('auth.headers'));
    expect(refused.map(([name]) => name)).toEqual(names);
  });

  it('[C18] what cannot be settled can be abandoned: as unknown if it was sent, else as if it never was', async () => {
    server.behave({ lossRate: 1 });
    const tab = await rig.openTab();
    await tab.evaluate(async () => {
      globalThis.outbox = page.open();
      await globalThis.outbox.enqueue(page.order('sent'), { key: 'sent' });
      await globalThis.outbox.enqueue(page.order('behind'), { key: 'behind' });
    });
    await until('it was sent', () => server.effects().has('sent'));
    const told = await tab.evaluate(async () => {
      const outbox = globalThis.outbox as NonNullable<typeof globalThis.outbox>;
      const abandon = async (key: string) =>
        outbox.abandon((await outbox.findByKey(key))?.id ?? '');
      const behind = await abandon('behind');
      const sent = await abandon('sent');
      return { behind, sent, failed: await outbox.findByKey('sent') };
    });
    expect(told).toMatchObject({
      behind: 'cancelled',
      sent: 'unknown',
      failed: { state: 'failed', outcome: 'unknown', code: 'ABANDONED' },
    });
    expect(server.effects().has('behind')).toBe(false);
  });
});

describe('what is kept of an end', () => {
  it('[C18] a refusal keeps its status and body, its code and what the application gave with it', async () => {
    const tab = await rig.openTab();
    const failed = await tab.evaluate(async () => {
      const outbox = page.open();
      const meta = { cart: [1, 2] };
      const queued = outbox.enqueue(page.order('refused one'), { meta });
      meta.cart.push(3);
      return outbox.whenSettled((await queued).id);
    });
    expect(failed).toMatchObject({
      state: 'failed',
      code: 'REFUSED',
      meta: { cart: [1, 2] },
      answer: { status: 422, body: expect.stringContaining('refused one') },
    });
  });

  it('[C18] what a user has typed is no placeholder', async () => {
    const tab = await rig.openTab();
    const typed = 'my {{0.name}} and {{1.x}}, {{!}} {{';
    const end = await tab.evaluate(async (typed) => {
      const outbox = page.open();
      const { id } = await outbox.enqueueGroup([
        { ...page.order('first'), undo: page.order('undo') },
        { url: '/orders', json: { item: page.client.literal(typed), of: '{{0.order_id}}' } },
      ]);
      return outbox.whenSettled(id);
    }, typed);
    expect(end).toMatchObject({ state: 'done' });
    expect([...server.effects().keys()]).toEqual(['first', typed]);
  });
});
