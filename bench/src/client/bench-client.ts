import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import type { Page as Tab } from 'playwright-core';
import { BrowserRig, bundlePage } from '../../../packages/onceward/test/client/browser-rig.ts';
import {
  type OrdersServer,
  startOrdersServer,
} from '../../../packages/onceward/test/client/orders-server.ts';
import type { BenchOptions } from '../benches.ts';
import type { Report } from '../report.ts';

const KB = 1_000;
const MB = 1_000_000;
/** What a page pays that uses the fetch wrapper and the outbox with its storage. */
const PAID_FOR = `export { idempotentFetch, indexedDbStorage, Outbox, replayInfo } from 'onceward/client';`;

interface Course {
  readonly totalMs: number;
  readonly slowestMs: number;
  /** The longest task of the page, or 0 if none took 50 ms; that is how browsers report them. */
  readonly longestTaskMs: number;
  /** The longest time that a timer of 5 ms was late by: what a user would feel, whatever the cause. */
  readonly longestStallMs: number;
}

/** The outbox in Chromium with a long queue: what it costs to fill, to open again and to send. */
export async function benchClient(report: Report, { quick }: BenchOptions): Promise<void> {
  const operations = quick ? 1_000 : 10_000;
  const emit = (name: string, metric: string, value: number) =>
    report({ bench: 'client', case: name, metric, value });
  emit('fetch wrapper and outbox, minified, gzip', 'kB', (await bundleBytes()) / KB);

  const server = await startOrdersServer(await bundlePage());
  const rig = await BrowserRig.start(server.url);
  const tellCourse = (name: string, course: Course, count: number) => {
    emit(`${name}: mean of each`, 'ms', course.totalMs / count);
    emit(`${name}: slowest`, 'ms', course.slowestMs);
    emit(`${name}: longest task (0: none of 50 ms)`, 'ms', course.longestTaskMs);
    emit(`${name}: longest stall of a timer`, 'ms', course.longestStallMs);
  };
  try {
    const heap = await fill(rig, operations, tellCourse);
    emit('heap of the empty page', 'MB', heap.empty / MB);
    emit(`heap with ${operations / 10} waiting`, 'MB', heap.some / MB);
    emit(`heap with ${operations} waiting`, 'MB', heap.all / MB);
    const sent = await send(rig, server, operations, tellCourse);
    emit(`heap with ${operations} sent`, 'MB', sent / MB);
  } finally {
    await rig.stop();
    await server.close();
  }
}

type EmitCourse = (name: string, course: Course, count: number) => void;

async function fill(rig: BrowserRig, operations: number, emit: EmitCourse) {
  const tab = await rig.openTab();
  const empty = await heapOf(rig, tab);
  const few = operations / 10;
  await queue(tab, 0, few, false);
  const some = await heapOf(rig, tab);
  emit('queued one by one', await queue(tab, few, operations, false), operations - few);
  const all = await heapOf(rig, tab);
  await tab.evaluate(() => page.discard());
  emit('queued all at once', await queue(tab, 0, operations, true), operations);
  await tab.close();
  // Nothing is compiled yet: the page blocks for longer than it ever will again.
  const fresh = await rig.openTab();
  await fresh.evaluate(() => page.discard());
  emit('queued all at once, first of all', await queue(fresh, 0, operations, true), operations);
  await fresh.close();
  return { empty, some, all };
}

/** A new tab finds a full queue and sends it over several lanes; the heap when it is done. */
async function send(
  rig: BrowserRig,
  server: OrdersServer,
  operations: number,
  emit: EmitCourse,
): Promise<number> {
  const tab = await rig.openTab();
  const course = await tab.evaluate(async () => {
    const watch = page.watchThread();
    const from = performance.now();
    const outbox = page.open();
    await page.whenEmpty(outbox);
    const totalMs = performance.now() - from;
    return { totalMs, slowestMs: 0, ...(await watch.end()) };
  });
  const effects = [...server.effects().values()];
  if (effects.length !== operations || effects.some((times) => times !== 1)) {
    throw new Error(`${effects.length} of ${operations} orders happened, or some of them twice`);
  }
  emit('found waiting and sent', course, operations);
  return heapOf(rig, tab);
}

function queue(tab: Tab, from: number, to: number, together: boolean): Promise<Course> {
  return tab.evaluate(
    async ({ from, to, together }) => {
      const outbox = page.open({ start: false });
      const watch = page.watchThread();
      let slowestMs = 0;
      const one = async (i: number) => {
        const begun = performance.now();
        await outbox.enqueue(page.order(`order ${i}`), { lane: `${i % 6}` });
        slowestMs = Math.max(slowestMs, performance.now() - begun);
      };
      const begun = performance.now();
      const all: Promise<void>[] = [];
      for (let i = from; i < to; i += 1) {
        if (together) all.push(one(i));
        else await one(i);
      }
      await Promise.all(all);
      const totalMs = performance.now() - begun;
      const thread = await watch.end();
      await outbox.close();
      return { totalMs, slowestMs, ...thread };
    },
    { from, to, together },
  );
}

/** After a collection of garbage, so that it is what the page holds on to. */
async function heapOf(rig: BrowserRig, tab: Tab): Promise<number> {
  const session = await rig.context.newCDPSession(tab);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize;
}

async function bundleBytes(): Promise<number> {
  const { outputFiles } = await build({
    stdin: { contents: PAID_FOR, resolveDir: import.meta.dirname, loader: 'ts' },
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    platform: 'browser',
    conditions: ['onceward-source'],
    write: false,
  });
  return gzipSync(outputFiles[0]?.contents ?? '', { level: 9 }).length;
}
