import { setTimeout as sleep } from 'node:timers/promises';
import type { Page as Tab } from 'playwright-core';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startServer } from '../../../server/test/running-program.ts';
import { BrowserRig, bundlePage } from './browser-rig.ts';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';
import type { Files } from './orders-server.ts';

let files: Files;
let server: Awaited<ReturnType<typeof startServer>>;
let proxy: FaultProxy;
let rig: BrowserRig;

beforeAll(async () => {
  files = await bundlePage();
});
beforeEach(async () => {
  server = await startServer();
  proxy = await startFaultProxy(server.url);
  rig = await BrowserRig.start(proxy.url);
  await servePage();
});
afterEach(async () => {
  await rig.stop();
  await proxy.close();
  await server.stop();
});

/** The page comes out of the test's hand, so that only its orders take the way that loses things. */
async function servePage(): Promise<void> {
  await rig.context.route(
    ({ pathname }) => files[pathname] !== undefined,
    (route) => {
      const file = files[new URL(route.request().url()).pathname];
      return route.fulfill({ contentType: file?.type ?? '', body: file?.text ?? '' });
    },
  );
}

async function placed(): Promise<number> {
  const answer = await fetch(`${server.url}/demo/v1/effects`);
  return ((await answer.json()) as { orders: number }).orders;
}

/** Opens an outbox in the tab and queues orders, over three lanes. */
function queue(tab: Tab, name: string, count: number): Promise<void> {
  return tab.evaluate(
    async ({ name, count }) => {
      const breaker = { failures: 1_000, windowMs: 1_000, openMs: 100 };
      globalThis.outbox = page.open({ breaker });
      const queued = Array.from({ length: count }, (_, i) => {
        const json = { item: `${name} ${i}`, amount: 1 };
        return globalThis.outbox?.enqueue(
          { url: '/demo/v1/orders', json },
          { lane: `${name} ${i % 3}` },
        );
      });
      await Promise.all(queued);
    },
    { name, count },
  );
}

async function untilNoneWaits(tab: Tab): Promise<void> {
  for (const limit = performance.now() + 60_000; performance.now() < limit; ) {
    if ((await tab.evaluate(() => page.count('waiting'))) === 0) return;
    await sleep(100);
  }
  throw new Error('some still wait');
}

describe('Chromium and the server, over a way that loses things', () => {
  it('[C4] every order is placed once, though the browser is killed again and again', async () => {
    proxy.loseRequests = 0.1;
    proxy.loseAnswers = 0.2;
    for (const [life, afterMs] of [50, 150, 300].entries()) {
      await queue(await rig.openTab(), `life ${life}`, 10);
      await sleep(afterMs);
      await rig.killAndRestart();
      await servePage();
    }
    const tab = await rig.openTab();
    await queue(tab, 'last life', 10);
    await untilNoneWaits(tab);
    expect(await tab.evaluate(() => page.count('done'))).toBe(40);
    expect(await placed()).toBe(40);
    expect(proxy.lost.answers).toBeGreaterThan(0);
  });

  it('[C9] of two tabs at once one crashes, and the other places the rest', async () => {
    proxy.loseAnswers = 0.2;
    const [one, two] = [await rig.openTab(), await rig.openTab()];
    await queue(one, 'one', 15);
    await queue(two, 'two', 15);
    const session = await rig.context.newCDPSession(one);
    const crashed = new Promise((resolve) => one.once('crash', resolve));
    // It gets no answer: there is nobody left to give one.
    session.send('Page.crash').catch(() => {});
    await crashed;
    await untilNoneWaits(two);
    expect(await two.evaluate(() => page.count('done'))).toBe(30);
    expect(await placed()).toBe(30);
  });

  it('[C4] [C6] a clock that is set back while an outcome is unknown places nothing twice', async () => {
    const tab = await rig.openTab();
    proxy.loseAnswers = 1;
    await queue(tab, 'order', 3);
    while ((await placed()) < 3) await sleep(50);
    const outcomes = await tab.evaluate(async () => {
      const { now } = Date;
      Date.now = () => now() - 24 * 3_600_000;
      await page.whenEmpty(globalThis.outbox as NonNullable<typeof globalThis.outbox>);
      const outcomes: string[] = [];
      for await (const { outcome } of globalThis.outbox?.failed.list() ?? []) {
        outcomes.push(outcome);
      }
      return outcomes;
    });
    expect(outcomes).toEqual(['unknown', 'unknown', 'unknown']);
    proxy.loseAnswers = 0;
    await tab.evaluate(async () => {
      for await (const { id } of globalThis.outbox?.failed.list() ?? []) {
        await globalThis.outbox?.failed.retry(id);
      }
    });
    await untilNoneWaits(tab);
    expect(await tab.evaluate(() => page.count('done'))).toBe(3);
    expect(await placed()).toBe(3);
  });
});
