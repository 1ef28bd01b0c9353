import { describe, expect, it } from 'vitest';
import {
  freshForEachTest,
  life,
  order,
  pass,
  server,
  storage,
} from '../../../test/client/lives.ts';
import { realWorld } from '../client-world.ts';
import { memoryStorage, type WaitingOperation } from '../index.ts';
import type { OutboxStorage } from '../storages/outbox-storage.ts';

freshForEachTest();

/** Hashes within the turn, so that `pass` can wait for it. */
const world = { ...realWorld, digest: async (text: string) => text };

/** The storage of the test, of which each swap waits until it is let through. */
function heldStorage() {
  const sizes: number[] = [];
  let letThrough = () => {};
  const held: OutboxStorage = {
    ...storage,
    async swap(changes) {
      sizes.push(changes.filter(({ key }) => key.startsWith('waiting/')).length);
      await new Promise<void>((resolve) => {
        letThrough = resolve;
      });
      return storage.swap(changes);
    },
  };
  return { held, sizes, letThrough: () => letThrough() };
}

describe('what the caller gave', () => {
  it('[C4] is taken at the call: what is changed afterwards changes nothing', async () => {
    const outbox = life({ start: false });
    const json = { item: 'as given', lines: [{ amount: 1 }] };
    const headers = new Headers({ 'x-tenant': 'acme' });
    const url = new URL('https://api.test/as-given');
    const request = { url, json, headers, method: 'PUT' };
    const options = { lane: 'a', label: 'as given', key: 'k-1' };
    const queued = outbox.enqueue(request, options);
    json.item = 'changed';
    json.lines.push({ amount: 2 });
    headers.set('x-tenant', 'evil');
    url.pathname = '/changed';
    Object.assign(request, { json: null, method: 'DELETE' });
    Object.assign(options, { lane: 'b', label: 'changed', key: 'k-2' });

    const body = Uint8Array.of(1, 2, 3);
    const bytes = outbox.enqueue({ url: '/bytes', body });
    body.fill(9);

    const undo = order('one off');
    const steps = [{ ...order('one'), undo }, order('two')];
    const group = outbox.enqueueGroup(steps);
    undo.json.item = 'changed';
    steps.pop();

    expect(await queued).toMatchObject({ key: 'k-1', id: expect.stringMatching(/^a\//) });
    expect(await outbox.find((await queued).id)).toMatchObject({ lane: 'a', label: 'as given' });
    const { id } = await group;
    const kept = (await outbox.find(id)) as WaitingOperation;
    expect(kept.steps).toHaveLength(2);
    expect(kept.steps[0]?.undo?.request.body).toBe('{"item":"one off"}');
    await bytes;
    await outbox.drain();
    const sent = server.requests.find(({ url }) => url === 'https://api.test/as-given');
    expect(sent?.item).toBe('as given');
    expect(sent?.headers.get('x-tenant')).toBe('acme');
    expect(server.requests.find(({ url }) => url === '/bytes')?.body).toEqual(
      Uint8Array.of(1, 2, 3),
    );
  });

  it('[C4] is refused by a rejection, never by a throw', async () => {
    const outbox = life();
    const refused = [
      outbox.enqueue({ url: '' }),
      outbox.enqueue({ url: '/a', json: 1n }),
      outbox.enqueueGroup([]),
    ];
    for (const { status } of await Promise.allSettled(refused)) expect(status).toBe('rejected');
  });
});

describe('many operations at once', () => {
  it('[C4] are written in slices, in order, and none is answered for or sent before its slice is stored', async () => {
    const { held, sizes, letThrough } = heldStorage();
    const outbox = life({ storage: held, world, start: false });
    const told: string[] = [];
    outbox.subscribe((event) => {
      if (event.type === 'queued') told.push(event.id);
    });
    let answered = 0;
    const all = Array.from({ length: 1_000 }, async (_, i) => {
      const queued = await outbox.enqueue(order(`${i}`));
      answered += 1;
      return queued.id;
    });
    let slices = 0;
    for (let stored = 0; stored < 1_000; slices += 1) {
      await pass(1);
      expect(sizes).toHaveLength(slices + 1);
      expect([answered, told.length, await storage.count('waiting/')]).toEqual(
        Array(3).fill(stored),
      );
      stored += sizes[slices] ?? 0;
      letThrough();
    }
    expect(slices).toBeGreaterThanOrEqual(10);
    const ids = await Promise.all(all);
    expect(ids).toEqual([...ids].sort());
    expect(told).toEqual(ids);
    expect(server.requests).toEqual([]);
  });

  it('[C4] one that joins while another slice is written waits for its own', async () => {
    const { held, letThrough } = heldStorage();
    const outbox = life({ storage: held, world, start: false });
    const first = outbox.enqueue(order('first'));
    await pass(1);
    let isStored = false;
    const second = outbox.enqueue(order('second')).finally(() => {
      isStored = true;
    });
    letThrough();
    await first;
    await pass(1);
    expect(isStored).toBe(false);
    letThrough();
    expect((await second).status).toBe('queued');
  });

  it('[C4] that are given before the outbox is closed are stored, and the next process sends them', async () => {
    const closing = life({ world });
    const ends = Promise.all(Array.from({ length: 200 }, (_, i) => closing.enqueue(order(`${i}`))));
    await closing.close();
    await expect(closing.enqueue(order('late'))).rejects.toMatchObject({ code: 'OUTBOX_CLOSED' });
    expect(new Set((await ends).map(({ status }) => status))).toEqual(new Set(['queued']));
    const next = life({ start: false });
    await next.drain();
    expect(server.effects.map(Number)).toEqual(Array.from({ length: 200 }, (_, i) => i));
  });

  it('[C4] one that cannot be stored is refused alone', async () => {
    const picky: OutboxStorage = {
      ...storage,
      async swap(changes) {
        if (JSON.stringify(changes).includes('bad')) throw new Error('not this one');
        return storage.swap(changes);
      },
    };
    const outbox = life({ storage: picky, start: false });
    const items = ['a', 'bad', 'b', 'bad too', 'c'];
    const ends = await Promise.allSettled(items.map((item) => outbox.enqueue(order(item))));
    expect(ends.map(({ status }) => status === 'fulfilled')).toEqual(
      items.map((item) => !item.startsWith('bad')),
    );
    expect(ends[1]).toMatchObject({ reason: { code: 'STORAGE_FAILED' } });
    await outbox.drain();
    expect(server.effects).toEqual(['a', 'b', 'c']);
  });

  it('[C4] a platform that fails to hash refuses those, and the next ones are queued', async () => {
    let broken = true;
    const digest = async (text: string) => {
      if (broken) throw new Error('no digest today');
      return realWorld.digest(text);
    };
    const outbox = life({ world: { ...realWorld, digest }, start: false });
    await expect(outbox.enqueue(order('a'))).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    broken = false;
    expect(await outbox.enqueue(order('b'))).toMatchObject({ status: 'queued' });
    await outbox.drain();
    expect(server.effects).toEqual(['b']);
  });
});

describe('a storage that is emptied and filled again by another tab', () => {
  it('[C9] a tab that knew it before gives no id twice', async () => {
    let current = storage;
    const changing: OutboxStorage = {
      ...storage,
      read: (keys) => current.read(keys),
      range: (query) => current.range(query),
      count: (prefix) => current.count(prefix),
      swap: (changes) => current.swap(changes),
    };
    const one = life({ storage: changing, start: false });
    await one.enqueue(order('lost 1'));
    await one.enqueue(order('lost 2'));
    current = memoryStorage();
    const two = life({ storage: changing, start: false });
    // As many writes as before, and more operations: what the first tab remembers looks right and is not.
    await Promise.all(['a', 'b', 'c', 'd'].map((item) => two.enqueue(order(item))));
    await two.enqueue(order('e'));
    await one.enqueue(order('f'));
    await one.drain();
    expect(server.effects).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  });
});
