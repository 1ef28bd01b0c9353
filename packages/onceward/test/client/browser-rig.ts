import { setTimeout as sleep } from 'node:timers/promises';
import { build } from 'esbuild';
import { type Browser, type BrowserContext, chromium, type Page as Tab } from 'playwright-core';
import { type ChromiumBrowser, startChromium } from '../../../../scripts/services/chromium.ts';
import type { Outbox } from '../../src/client/index.ts';
import type { Files } from './orders-server.ts';
import type { Page } from './page.ts';

const HERE = new URL('.', import.meta.url).pathname;

declare global {
  /** Inside of the browser. */
  var page: Page;
  /** Inside of the browser: one outbox for several calls. */
  var outbox: Outbox | undefined;
}

/** The page and its service worker, bundled as a user would bundle them. */
export async function bundlePage(): Promise<Files> {
  const script = async (entry: string) => {
    const { outputFiles } = await build({
      entryPoints: [HERE + entry],
      bundle: true,
      format: 'iife',
      platform: 'browser',
      target: 'es2022',
      write: false,
    });
    return { type: 'text/javascript', text: outputFiles[0]?.text ?? '' };
  };
  return {
    '/': {
      type: 'text/html',
      text: '<!doctype html><title>Outbox</title><script src="/page.js"></script>',
    },
    '/page.js': await script('page.ts'),
    '/worker.js': await script('worker.ts'),
  };
}

const LIMIT_MS = 60_000;

export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const limit = performance.now() + LIMIT_MS; performance.now() < limit; ) {
    if (await holds()) return;
    await sleep(50);
  }
  throw new Error(`waited in vain: ${what}`);
}

/** A browser that can be killed and comes back with the same profile. */
export class BrowserRig {
  readonly #process: ChromiumBrowser;
  readonly #url: string;
  #driver: Browser | null = null;

  private constructor(process: ChromiumBrowser, url: string) {
    this.#process = process;
    this.#url = url;
  }

  static async start(url: string): Promise<BrowserRig> {
    const rig = new BrowserRig(await startChromium(), url);
    await rig.#connect();
    return rig;
  }

  get context(): BrowserContext {
    const context = this.#driver?.contexts()[0];
    if (context === undefined) throw new Error('the browser is not running');
    return context;
  }

  async openTab(): Promise<Tab> {
    const tab = await this.context.newPage();
    await tab.goto(this.#url);
    return tab;
  }

  /** kill -9, and a new start over the same profile. */
  async killAndRestart(): Promise<void> {
    await this.#process.kill();
    await this.#driver?.close().catch(() => {});
    await this.#process.start();
    await this.#connect();
  }

  async stop(): Promise<void> {
    await this.#driver?.close().catch(() => {});
    await this.#process.remove();
  }

  async #connect(): Promise<void> {
    this.#driver = await chromium.connectOverCDP(this.#process.endpoint);
  }
}
