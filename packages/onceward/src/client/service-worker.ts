import type { Outbox } from './outbox/outbox.ts';

/** Background Sync, where it exists: so far in Chromium, and not in TypeScript's own types. */
interface SyncEvent extends Event {
  readonly tag: string;
  readonly lastChance: boolean;
  waitUntil(work: Promise<unknown>): void;
}

interface SyncRegistration {
  readonly sync?: { register(tag: string): Promise<void> };
}

/**
 * For the service worker: sends what waits when the browser says that there is a connection, also when no page
 * is open any more. The outbox is opened for each event, with `start: false`, over the storage of the pages.
 *
 * ```ts
 * sendInBackground(self, 'outbox', () => new Outbox({ storage: indexedDbStorage(), start: false }));
 * ```
 */
export function sendInBackground(worker: EventTarget, tag: string, open: () => Outbox): void {
  worker.addEventListener('sync', (event) => {
    const sync = event as SyncEvent;
    if (sync.tag === tag) sync.waitUntil(sendAll(open()));
  });
}

/** Rejects while something is left, which asks the browser to try again later. */
async function sendAll(outbox: Outbox): Promise<void> {
  try {
    await outbox.drain();
    for await (const _operation of outbox.waiting()) {
      throw new Error('operations are still waiting');
    }
  } finally {
    await outbox.close();
  }
}

/**
 * For the page: asks the browser to wake the service worker when there is something to send. `false`: this
 * browser cannot, and the outbox sends when a page is open.
 */
export async function askForBackgroundSync(
  registration: ServiceWorkerRegistration,
  tag: string,
): Promise<boolean> {
  const { sync } = registration as SyncRegistration;
  if (sync === undefined) return false;
  try {
    await sync.register(tag);
    return true;
  } catch {
    // The user may have forbidden it; nothing is lost but time.
    return false;
  }
}
