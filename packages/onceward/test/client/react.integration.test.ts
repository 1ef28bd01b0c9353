import { build } from 'esbuild';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BrowserRig, until } from './browser-rig.ts';
import { type OrdersServer, startOrdersServer } from './orders-server.ts';

let server: OrdersServer;
let rig: BrowserRig;

beforeEach(async () => {
  const { outputFiles } = await build({
    entryPoints: [new URL('react-page.mjs', import.meta.url).pathname],
    bundle: true,
    format: 'iife',
    platform: 'browser',
    define: { 'process.env.NODE_ENV': '"development"' },
    write: false,
  });
  const page = '<!doctype html><title>React</title><body><script src="/page.js"></script>';
  server = await startOrdersServer({
    '/': { type: 'text/html', text: page },
    '/page.js': { type: 'text/javascript', text: outputFiles[0]?.text ?? '' },
  });
  rig = await BrowserRig.start(server.url);
});
afterEach(async () => {
  await rig.stop();
  await server.close();
});

declare global {
  /** Inside of the browser. */
  var show: (id: string) => void;
  var leave: () => void;
}

it('[C4] React shows how an outbox and an operation stand, in strict mode, as they change', async () => {
  const tab = await rig.openTab();
  const problems: string[] = [];
  tab.on('pageerror', (error) => problems.push(String(error)));
  tab.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  const shows = (text: string) =>
    until(text, async () => (await tab.locator('p').textContent()) === text);
  await tab.evaluate(async () => {
    await globalThis.outbox?.pause();
    const queued = await globalThis.outbox?.enqueue({ url: '/orders', json: { item: 'a' } });
    globalThis.show(queued?.id ?? '');
  });
  await shows('1 user waiting');
  await tab.evaluate(() => globalThis.outbox?.resume());
  await shows('0 going done');
  await tab.evaluate(() => globalThis.show('default/0'));
  await shows('0 going none');
  await tab.evaluate(() => globalThis.leave());
  expect(await tab.locator('p').count()).toBe(0);
  expect(
    problems.filter((problem) => !problem.includes('favicon') && !problem.includes('404')),
  ).toEqual([]);
});
