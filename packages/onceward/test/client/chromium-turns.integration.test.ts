import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
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
});
afterEach(async () => {
  await rig.stop();
  await server.close();
});

/** As on a page that came over plain HTTP. */
const withoutLocks = () =>
  rig.context.addInitScript(() => {
    Object.defineProperty(Navigator.prototype, 'locks', { value: undefined });
  });

describe('pages without Web Locks', () => {
  it('[C7] [C9] a 429 in one tab while another has its attempt on the way does not let an edit through', async () => {
    await withoutLocks();
    server.behave({
      script: [{ waitMs: 1_500, status: 429 }, { waitMs: 3_000 }],
    });
    const [one, two] = [await rig.openTab(), await rig.openTab()];
    const id = await one.evaluate(async () => {
      globalThis.outbox = page.open({ retry: { baseMs: 60_000, capMs: 60_000 } });
      return (await globalThis.outbox.enqueue(page.order('draft'))).id;
    });
    await until('one tab has sent it', () => server.requests().get('draft') === 1);
    await two.evaluate(() => {
      globalThis.outbox = page.open({ retry: { baseMs: 60_000, capMs: 60_000 } });
    });
    await until('so has the other', () => server.requests().get('draft') === 2);
    await sleep(1_800);
    const edited = await one.evaluate((id) => globalThis.outbox?.edit(id, page.order('final')), id);
    expect(edited).toBe('settling');
    await until('it has happened', () => server.effects().size > 0);
    await sleep(2_000);
    expect(Object.fromEntries(server.effects())).toEqual({ draft: 1 });
  });

  it('[C9] `whenSettled` resolves also if another tab sent the operation and its notice was lost', async () => {
    await withoutLocks();
    const [one, two] = [await rig.openTab(), await rig.openTab()];
    const end = two.evaluate(async () => {
      const { silentBulletin } = page.client;
      globalThis.outbox = page.open({ start: false, bulletin: silentBulletin });
      const { id } = await globalThis.outbox.enqueue(page.order('elsewhere'));
      return globalThis.outbox.whenSettled(id);
    });
    await until(
      'it is queued',
      async () => (await one.evaluate(() => page.count('waiting'))) === 1,
    );
    await one.evaluate(() => {
      page.open();
    });
    expect(await end).toMatchObject({ state: 'done' });
  });

  it('[C9] with a lease one tab sends, and another takes over when it is closed', async () => {
    await withoutLocks();
    const tabs = [await rig.openTab(), await rig.openTab()];
    const open = (i: number) =>
      tabs[i]?.evaluate(async () => {
        const storage = page.client.indexedDbStorage();
        globalThis.outbox = page.open({ storage, lock: page.client.leaseLock(storage) });
        await new Promise((resolve) => setTimeout(resolve, 500));
        return globalThis.outbox.status.getSnapshot().running;
      });
    expect(await open(0)).toBe(true);
    expect(await open(1)).toBe(false);
    await tabs[1]?.evaluate(() => globalThis.outbox?.enqueue(page.order('one')));
    await until('it was sent', () => server.effects().has('one'));
    await tabs[0]?.close();
    await tabs[1]?.evaluate(() => globalThis.outbox?.enqueue(page.order('two')));
    await until('so was the other', () => server.effects().has('two'));
    expect(Object.fromEntries(server.requests())).toEqual({ one: 1, two: 1 });
  });
});

describe('locks that do not help', () => {
  it('[C9] a tab that stalls with the lease is taken over, and when it wakes nothing happens twice', async () => {
    const [stalled, awake] = [await rig.openTab(), await rig.openTab()];
    const open = () => {
      const storage = page.client.indexedDbStorage();
      const onTakeover = () => Object.assign(globalThis, { tookOver: true });
      const lock = page.client.leaseLock(storage, { onTakeover });
      globalThis.outbox = page.open({ storage, lock });
    };
    await stalled.evaluate(open);
    await until('it sends', () =>
      stalled.evaluate(() => globalThis.outbox?.status.getSnapshot().running === true),
    );
    await awake.evaluate(open);
    await stalled.evaluate(() => {
      setTimeout(() => {
        for (const end = Date.now() + 40_000; Date.now() < end; );
      });
    });
    await awake.evaluate(() => globalThis.outbox?.enqueue(page.order('while it stalls')));
    await until('it was sent', () => server.effects().size === 1);
    expect(await awake.evaluate(() => 'tookOver' in globalThis)).toBe(true);
    await until('the stalled tab has woken up and stopped', () =>
      stalled.evaluate(() => globalThis.outbox?.status.getSnapshot().running === false),
    );
    await stalled.evaluate(() => globalThis.outbox?.enqueue(page.order('afterwards')));
    await until('it was sent too', () => server.effects().size === 2);
    expect([...server.effects().values()]).toEqual([1, 1]);
  });

  it('[C9] so is one that stalls with a Web Lock, by default: those who wait ask it, and are not answered', async () => {
    const [stalled, awake] = [await rig.openTab(), await rig.openTab()];
    const open = () => {
      const { realWorld } = page.client;
      // A minute passes in a second.
      const startTimer: typeof realWorld.startTimer = (ms, ...rest) =>
        realWorld.startTimer(ms / 60, ...rest);
      globalThis.outbox = page.open({ world: { ...realWorld, startTimer } });
    };
    const isRunning = () => globalThis.outbox?.status.getSnapshot().running === true;
    await stalled.evaluate(open);
    await until('it sends', () => stalled.evaluate(isRunning));
    await awake.evaluate(open);
    // Long enough for six pings and more: a holder that answers keeps the lock.
    await sleep(5_000);
    expect(await awake.evaluate(isRunning)).toBe(false);
    await stalled.evaluate(() => {
      setTimeout(() => {
        for (const end = Date.now() + 15_000; Date.now() < end; );
      });
    });
    await awake.evaluate(() => globalThis.outbox?.enqueue(page.order('while it stalls')));
    await until('it was sent', () => server.effects().size === 1);
    await until('the stalled tab has woken up and stopped', () =>
      stalled.evaluate(() => globalThis.outbox?.status.getSnapshot().running === false),
    );
    await stalled.evaluate(() => globalThis.outbox?.enqueue(page.order('afterwards')));
    await until('it was sent too', () => server.effects().size === 2);
    expect([...server.effects().values()]).toEqual([1, 1]);
  });

  it('[C9] what fails while it holds the lock is not begun again without one', async () => {
    const tab = await rig.openTab();
    const heard = await tab.evaluate(async () => {
      const { signal } = new AbortController();
      let begun = 0;
      const work = async () => {
        begun += 1;
        throw new Error('it broke');
      };
      const held = page.client.webLock('mine').hold(work, { signal, ifFree: false });
      return { said: await held.catch(String), begun };
    });
    expect(heard).toEqual({ said: 'Error: it broke', begun: 1 });
  });

  it('[C9] locks that the browser refuses are done without, and nothing is left unhandled', async () => {
    await rig.context.addInitScript(() => {
      const refused = () => Promise.reject(new DOMException('not here', 'SecurityError'));
      Object.defineProperty(LockManager.prototype, 'request', { value: refused });
      const unhandled: string[] = [];
      addEventListener('unhandledrejection', ({ reason }) => unhandled.push(String(reason)));
      Object.assign(globalThis, { unhandled });
    });
    const tab = await rig.openTab();
    await tab.evaluate(() => page.open().enqueue(page.order('without')));
    await until('it was sent', () => server.effects().size === 1);
    expect(await tab.evaluate(() => (globalThis as { unhandled?: string[] }).unhandled)).toEqual(
      [],
    );
  });
});
