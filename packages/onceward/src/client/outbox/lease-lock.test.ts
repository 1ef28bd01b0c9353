import { describe, expect, it } from 'vitest';
import {
  freshForEachTest,
  life,
  order,
  pass,
  SECOND,
  server,
  storage,
} from '../../../test/client/lives.ts';
import { leaseLock } from '../index.ts';

freshForEachTest();

/** Holds the lease as a tab does that was closed without a word: it is never renewed nor given back. */
async function closedTab(): Promise<void> {
  await storage.swap([{ key: 'runner', next: { version: 7, holder: 'a closed tab' } as never }]);
}

const worker = () => life({ lock: leaseLock(storage), start: false });

describe('a lease and drain', () => {
  it('[C9] drain takes over from a tab that was closed, after the time of its lease', async () => {
    await closedTab();
    const outbox = worker();
    await outbox.enqueue(order('a'));
    const drained = outbox.drain();
    await pass(12 * SECOND);
    expect(server.effects).toEqual([]);
    await pass(8 * SECOND);
    await drained;
    expect(server.effects).toEqual(['a']);
  });

  it('[C9] drain leaves it to a tab that lives', async () => {
    const tab = life({ lock: leaseLock(storage) });
    await pass(1);
    await tab.pause();
    const outbox = worker();
    await outbox.enqueue(order('a'));
    const drained = outbox.drain().then(() => 'gave up');
    await pass(8 * SECOND);
    expect(await drained).toBe('gave up');
    await pass(60 * SECOND);
    expect(tab.status.getSnapshot()).toMatchObject({ running: true });
  });

  it('[C9] an outbox that is closed while it drains gives the lease back before its storage is closed', async () => {
    server.holdBack = true;
    let isClosed = false;
    const own = {
      ...storage,
      swap: (changes: Parameters<typeof storage.swap>[0]) =>
        isClosed ? Promise.reject(new Error('closed')) : storage.swap(changes),
      close: async () => {
        isClosed = true;
      },
    };
    const first = life({ storage: own, lock: leaseLock(own), start: false });
    await first.enqueue(order('a'));
    void first.drain();
    await pass(1);
    expect(server.requests).toHaveLength(1);
    await first.close();
    server.release();
    const second = worker();
    void second.drain();
    await pass(1);
    expect(server.requests).toHaveLength(2);
    expect(server.effects).toEqual(['a']);
  });
});
