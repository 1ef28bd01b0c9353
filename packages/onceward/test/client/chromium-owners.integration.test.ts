import { setTimeout as sleep } from 'node:timers/promises';
import type { Page as Tab } from 'playwright-core';
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

/** Opens an outbox of which `localStorage.user` says who is signed in, and whose token is their name. */
async function signInAndOpen(tab: Tab, user: string): Promise<void> {
  await tab.evaluate((user) => {
    localStorage.setItem('user', user);
    const owner = () => localStorage.getItem('user');
    globalThis.outbox = page.open({
      owner,
      auth: { headers: () => ({ authorization: owner() ?? 'nobody' }) },
    });
  }, user);
}

const signIn = (tab: Tab, user: string) =>
  tab.evaluate(async (user) => {
    localStorage.setItem('user', user);
    await globalThis.outbox?.resume();
  }, user);

const order = (tab: Tab, ...items: string[]) =>
  tab.evaluate(async (items) => {
    const ids: string[] = [];
    for (const item of items) {
      const queued = await globalThis.outbox?.enqueue(page.order(item), { lane: item });
      ids.push(queued?.id ?? '');
    }
    return ids;
  }, items);

const settled = (tab: Tab, id: string) =>
  tab.evaluate((id) => globalThis.outbox?.whenSettled(id), id);

describe('two users of one device', () => {
  it('[C17] what one queued is never sent for the other; with lost answers it happens once', async () => {
    server.behave({ lossRate: 1 });
    const tab = await rig.openTab();
    await signInAndOpen(tab, 'alice');
    const ids = await order(tab, 'a1', 'a2', 'a3');
    await until('all were sent', () => server.effects().size === 3);
    await signIn(tab, 'bob');
    server.behave();
    const [bobs = ''] = await order(tab, 'b1');
    expect(await settled(tab, bobs)).toMatchObject({ state: 'done' });
    await sleep(1_500);
    const reloaded = await rig.openTab();
    await tab.close();
    await signInAndOpen(reloaded, 'bob');
    await sleep(1_000);
    expect(server.users().get('b1')).toEqual(['bob']);
    await signIn(reloaded, 'alice');
    for (const id of ids) expect(await settled(reloaded, id)).toMatchObject({ state: 'done' });
    for (const item of ['a1', 'a2', 'a3']) expect(server.users().get(item)).toEqual(['alice']);
  });

  it('[C17] credentials that come after a change of user are not sent with the operation', async () => {
    const tab = await rig.openTab();
    await tab.evaluate(async () => {
      let user = 'alice';
      Object.assign(globalThis, {
        becomes: (next: string) => {
          user = next;
        },
      });
      const headers = async () => {
        await new Promise((resolve) => setTimeout(resolve, 500));
        return { authorization: user };
      };
      globalThis.outbox = page.open({ owner: () => user, auth: { headers } });
      await globalThis.outbox.enqueue(page.order('a1'));
    });
    await sleep(200);
    const becomes = (user: string) =>
      tab.evaluate(async (user) => {
        (globalThis as unknown as { becomes(user: string): void }).becomes(user);
        await globalThis.outbox?.resume();
      }, user);
    await becomes('bob');
    await sleep(1_500);
    expect(server.requests().size).toBe(0);
    await becomes('alice');
    await until('it was sent', () => server.effects().size === 1);
    expect(server.users().get('a1')).toEqual(['alice']);
  });

  it('[C17] keys, lists, coalescing and duplicates of one are not those of the other', async () => {
    const tab = await rig.openTab();
    const told = await tab.evaluate(async () => {
      let user = 'alice';
      const outbox = page.open({
        owner: () => user,
        start: false,
        catchDuplicatesWithinMs: 60_000,
      });
      const same = { key: 'k-1', coalesce: 'profile' };
      await outbox.enqueue(page.order('x'), same);
      user = 'bob';
      const bobs = await outbox.enqueue(page.order('y'), same);
      const duplicate = await outbox.enqueue(page.order('x'));
      const labels: string[] = [];
      for await (const { owner } of outbox.waiting()) labels.push(owner ?? '');
      return { bobs, duplicate: duplicate.status, labels };
    });
    expect(told.bobs).toMatchObject({ status: 'queued', superseded: null });
    expect(told.duplicate).toBe('queued');
    expect(told.labels).toEqual(['bob', 'bob']);
  });

  it('[C17] a wipe removes all of one user, says what may have happened, and leaves the other alone', async () => {
    server.behave({ lossRate: 1 });
    const tab = await rig.openTab();
    await signInAndOpen(tab, 'alice');
    await order(tab, 'a1');
    await until('it was sent', () => server.effects().size === 1);
    await tab.evaluate(async () => {
      await globalThis.outbox?.pause();
      await globalThis.outbox?.enqueue(page.order('a2'), { lane: 'a2', label: 'second' });
      localStorage.setItem('user', 'bob');
      await globalThis.outbox?.enqueue(page.order('b1'), { lane: 'b1' });
    });
    const wiped = await tab.evaluate(() =>
      page.client.wipe(globalThis.outbox as NonNullable<typeof globalThis.outbox>, 'alice'),
    );
    expect(wiped).toMatchObject({ waiting: 2, failed: 0, done: 0 });
    expect(wiped.unknown.map(({ lane }) => lane)).toEqual(['a1']);
    server.behave();
    await tab.evaluate(() => globalThis.outbox?.resume());
    await until("bob's was sent", () => server.effects().has('b1'));
    await signIn(tab, 'alice');
    await sleep(500);
    expect([...server.effects().keys()].sort()).toEqual(['a1', 'b1']);
  });

  it('[C17] an id is not given again after the database was deleted', async () => {
    const tab = await rig.openTab();
    const first = await tab.evaluate(async () => {
      const outbox = page.open({ start: false });
      const { id } = await outbox.enqueue(page.order('one'));
      await outbox.close();
      await page.discard();
      return id;
    });
    const second = await tab.evaluate(() =>
      page
        .open({ start: false })
        .enqueue(page.order('two'))
        .then(({ id }) => id),
    );
    expect(second).not.toBe(first);
  });
});

describe('pauses and credentials', () => {
  it('[C17] a pause outlives its tab and holds for the others, until someone resumes', async () => {
    const first = await rig.openTab();
    const second = await rig.openTab();
    await second.evaluate(() => {
      globalThis.outbox = page.open();
    });
    await first.evaluate(() => page.open().pause());
    await first.close();
    const third = await rig.openTab();
    await third.evaluate(async () => {
      globalThis.outbox = page.open();
      await globalThis.outbox.enqueue(page.order('later'));
    });
    await sleep(1_500);
    expect(server.requests().size).toBe(0);
    await until('the new tab shows it', () =>
      third.evaluate(() => globalThis.outbox?.status.getSnapshot().paused === 'user'),
    );
    await third.evaluate(() => globalThis.outbox?.resume());
    await until('it was sent', () => server.effects().size === 1);
  });

  it("[C17] a service worker's 401 does not pause the page that is signed in", async () => {
    server.behave({ unauthorized: [''] });
    const tab = await rig.openTab();
    const session = await rig.context.newCDPSession(tab);
    const registrations: { registrationId: string }[] = [];
    session.on('ServiceWorker.workerRegistrationUpdated', (event) => {
      registrations.push(...event.registrations);
    });
    await session.send('ServiceWorker.enable');
    await tab.evaluate(() => page.installWorker());
    await tab.evaluate(async () => {
      const auth = { headers: () => ({ authorization: 'alice' }) };
      globalThis.outbox = page.open({ auth, start: false });
      await globalThis.outbox.enqueue(page.order('signed'));
    });
    await until('the worker is known', () => registrations.length > 0);
    await session.send('ServiceWorker.dispatchSyncEvent', {
      origin: server.url,
      registrationId: registrations[0]?.registrationId ?? '',
      tag: 'outbox',
      lastChance: false,
    });
    await until('the worker was refused', () => (server.requests().get('signed') ?? 0) > 0);
    await sleep(300);
    await tab.evaluate(() => globalThis.outbox?.drain());
    expect(server.users().get('signed')).toEqual(['alice']);
  });

  it('[C17] six that get a 401 at once make one refresh', async () => {
    server.behave({ unauthorized: ['old'], delayMs: 50 });
    const tab = await rig.openTab();
    const refreshes = await tab.evaluate(async () => {
      let token = 'old';
      let refreshes = 0;
      const outbox = page.open({
        auth: {
          headers: () => ({ authorization: token }),
          async refresh() {
            refreshes += 1;
            await new Promise((resolve) => setTimeout(resolve, 300));
            token = 'new';
            return true;
          },
        },
      });
      const ids = ['1', '2', '3', '4', '5', '6'].map(async (lane) => {
        const { id } = await outbox.enqueue(page.order(lane), { lane });
        await outbox.whenSettled(id);
      });
      await Promise.all(ids);
      return refreshes;
    });
    expect(refreshes).toBe(1);
    expect(server.effects().size).toBe(6);
  });

  it('[C17] credentials that never come are given up after ten seconds, and asked for again', async () => {
    const tab = await rig.openTab();
    await tab.evaluate(async () => {
      let calls = 0;
      const headers = () => {
        calls += 1;
        return calls <= 6 ? new Promise<never>(() => {}) : { authorization: 'alice' };
      };
      globalThis.outbox = page.open({ auth: { headers } });
      for (let lane = 0; lane < 7; lane += 1) {
        await globalThis.outbox.enqueue(page.order(`${lane}`), { lane: `${lane}` });
      }
    });
    await until('all were sent', () => server.effects().size === 7);
    expect([...server.effects().values()]).toEqual(Array(7).fill(1));
  });
});
