import * as client from '../../src/client/index.ts';
import { askForBackgroundSync } from '../../src/client/service-worker.ts';
import { STORAGE_LAWS } from './storage-laws.ts';

const BEAT_MS = 5;

/** What the tests call inside of the browser. */
export const page = {
  client,
  open(options: Partial<client.OutboxOptions> = {}): client.Outbox {
    return new client.Outbox({
      storage: client.indexedDbStorage(),
      groups: client.groups,
      retry: { baseMs: 100, capMs: 500 },
      ...options,
    });
  },

  order(item: string): client.OutboxRequest {
    return { url: '/orders', json: { item } };
  },

  /** The laws that are broken, with their reasons. */
  async brokenLaws(): Promise<string[]> {
    const broken: string[] = [];
    for (const [law, check] of Object.entries(STORAGE_LAWS)) {
      const storage = client.indexedDbStorage(`law ${law}`);
      await check(storage).catch((error) => broken.push(`${law}: ${error}`));
      await storage.close();
    }
    return broken;
  },

  async count(what: 'waiting' | 'failed' | 'done'): Promise<number> {
    const storage = client.indexedDbStorage();
    const count = await storage.count(`${what}/`);
    await storage.close();
    return count;
  },

  /** Deletes what the outbox stored. */
  discard(): Promise<void> {
    return new Promise((resolve, reject) => {
      const request = indexedDB.deleteDatabase('onceward-outbox');
      request.onsuccess = () => resolve();
      request.onerror = () => reject(request.error);
    });
  },

  /** Does what a later version of the library might do. */
  upgrade(): Promise<void> {
    return new Promise((resolve, reject) => {
      const request = indexedDB.open('onceward-outbox', 2);
      request.onsuccess = () => resolve();
      request.onerror = () => reject(request.error);
    });
  },

  async whenEmpty(outbox: client.Outbox): Promise<void> {
    while (outbox.status.getSnapshot().waiting > 0 || (await page.count('waiting')) > 0) {
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  },

  /** Watches how long the page's thread is taken, until `end` is called. */
  watchThread() {
    let longestTaskMs = 0;
    const take = (entries: readonly PerformanceEntry[]) => {
      for (const { duration } of entries) longestTaskMs = Math.max(longestTaskMs, duration);
    };
    const observer = new PerformanceObserver((list) => take(list.getEntries()));
    observer.observe({ type: 'longtask' });
    let longestStallMs = 0;
    let last = performance.now();
    const beat = setInterval(() => {
      const now = performance.now();
      longestStallMs = Math.max(longestStallMs, now - last - BEAT_MS);
      last = now;
    }, BEAT_MS);
    return {
      async end() {
        // Long tasks are reported after they have ended.
        await new Promise((resolve) => setTimeout(resolve, 200));
        clearInterval(beat);
        take(observer.takeRecords());
        observer.disconnect();
        return { longestTaskMs, longestStallMs };
      },
    };
  },

  /** Installs the service worker and asks it to send in the background. */
  async installWorker(): Promise<boolean> {
    await navigator.serviceWorker.register('/worker.js');
    return askForBackgroundSync(await navigator.serviceWorker.ready, 'outbox');
  },
};

export type Page = typeof page;

Object.assign(globalThis, { page });
