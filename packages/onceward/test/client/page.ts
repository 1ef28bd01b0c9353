import * as client from '../../src/client/index.ts';
import { askForBackgroundSync } from '../../src/client/service-worker.ts';
import { STORAGE_LAWS } from './storage-laws.ts';

/** What the tests call inside of the browser. */
export const page = {
  client,
  open(options: Partial<client.OutboxOptions> = {}): client.Outbox {
    return new client.Outbox({
      storage: client.indexedDbStorage(),
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

  /** Installs the service worker and asks it to send in the background. */
  async installWorker(): Promise<boolean> {
    await navigator.serviceWorker.register('/worker.js');
    return askForBackgroundSync(await navigator.serviceWorker.ready, 'outbox');
  },
};

export type Page = typeof page;

Object.assign(globalThis, { page });
