import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KIB } from '../../engine/units.ts';
import { type DiskFaults, PowerCutDisk } from '../../testing/stores/power-cut-disk.ts';
import { Outbox } from '../index.ts';
import { openLogStorage } from './node-log.ts';
import type { Change, Entry, OutboxStorage } from './outbox-storage.ts';

const fault = (code: string) => Object.assign(new Error(`${code}: from the disk`), { code });
const enospc = () => fault('ENOSPC');

function open(disk: PowerCutDisk): Promise<OutboxStorage> {
  return openLogStorage({ directory: '/outbox', segmentBytes: 8 * KIB, fileSystem: disk });
}

/** What the next life finds; only what was synced is left. */
function reopen(disk: PowerCutDisk): Promise<OutboxStorage> {
  return open(disk.restart());
}

const put = (key: string, version: number, expected?: number | null): Change[] => [
  { key, next: { version }, ...(expected === undefined ? {} : { expected }) },
];

async function all(storage: OutboxStorage): Promise<Record<string, unknown>> {
  const found = await storage.range({ prefix: '', limit: 10_000 });
  return Object.fromEntries(found.map(({ key, entry }) => [key, entry]));
}

const unhandled: unknown[] = [];
const note = (error: unknown) => unhandled.push(error);
beforeEach(() => {
  unhandled.length = 0;
  process.on('unhandledRejection', note);
});
afterEach(() => {
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
});

/** Where in the handling of a write the room ends. */
const FULL: Record<string, (isFull: () => boolean) => DiskFaults> = {
  'at the first byte': (isFull) => ({
    before: ({ kind }) => {
      if (isFull() && kind === 'write') throw enospc();
    },
  }),
  'in the midst of a write': (isFull) => {
    let writes = 0;
    return {
      mostPerWrite: 512,
      before: ({ kind }) => {
        if (isFull() && kind === 'write' && ++writes % 3 === 0) throw enospc();
      },
    };
  },
  'when the write is synced': (isFull) => ({
    beforeSync: ({ isWriteThrough }) => {
      if (isFull() && isWriteThrough) throw enospc();
    },
  }),
};

describe.each(Object.keys(FULL))('the log on a disk that is full %s', (name) => {
  it('[C4] shows only what is durable, also to those who built on what failed, and goes on with room', async () => {
    let isFull = false;
    const disk = new PowerCutDisk(FULL[name]?.(() => isFull));
    const storage = await open(disk);
    const acknowledged: Record<string, { version: number }> = {};
    const swap = async (key: string, version: number, expected: number | null) => {
      const won = await storage.swap(put(key, version, expected));
      if (won) acknowledged[key] = { version };
      return won;
    };
    await swap('a', 1, null);
    isFull = true;
    const refusals: unknown[] = [];
    for (let round = 1; round <= 5; round += 1) {
      const version = (acknowledged['a'] as { version: number }).version;
      const ends = await Promise.allSettled([
        swap('a', version + 1, version),
        swap('a', version + 2, version + 1),
        swap(`b/${round}`, 1, null),
      ]);
      const failed = ends.filter((end) => end.status === 'rejected');
      expect([0, ends.length]).toContain(failed.length);
      refusals.push(...failed.map(({ reason }) => reason));
      expect(await all(storage)).toEqual(acknowledged);
      expect(await storage.count('')).toBe(Object.keys(acknowledged).length);
    }
    expect(refusals.length).toBeGreaterThan(0);
    for (const refusal of refusals) expect(String(refusal)).toContain('ENOSPC');
    isFull = false;
    expect(await swap('c', 1, null)).toBe(true);
    expect(await all(storage)).toEqual(acknowledged);
    await storage.close();
    const next = await reopen(disk);
    expect(await all(next)).toEqual(acknowledged);
    await next.close();
  });
});

describe('the log on a disk that fails', () => {
  it.each([
    ['EIO', 'before'],
    ['EIO', 'beforeSync'],
    ['EROFS', 'before'],
  ] as const)(
    '[C4] after %s %s a write shows nothing until it is opened again',
    async (code, when) => {
      let isBroken = false;
      const disk = new PowerCutDisk({
        [when]: ({ kind }: { kind: string }) => {
          if (isBroken && kind === 'write') throw fault(code);
        },
      });
      const storage = await open(disk);
      await storage.swap(put('a', 1));
      isBroken = true;
      const refused = { code: 'STORAGE_FAILED', message: expect.stringContaining(code) };
      const swaps = [put('a', 2, 1), put('a', 3, 2), put('b', 1)].map((c) => storage.swap(c));
      for (const end of await Promise.allSettled(swaps)) {
        expect(end).toMatchObject({ status: 'rejected', reason: refused });
      }
      isBroken = false;
      await expect(storage.read(['a'])).rejects.toMatchObject(refused);
      await expect(storage.range({ prefix: '', limit: 1 })).rejects.toMatchObject(refused);
      await expect(storage.count('')).rejects.toMatchObject(refused);
      await expect(storage.swap(put('c', 1))).rejects.toMatchObject(refused);
      await storage.close().catch(() => undefined);
      const next = await reopen(disk);
      expect(await next.read(['c'])).toEqual([undefined]);
      expect((await next.read(['a']))[0]?.version).toBeGreaterThanOrEqual(1);
      await next.close();
    },
  );

  it('[C4] a swap that is at odds with one that fails is made after it', async () => {
    let isFull = false;
    const disk = new PowerCutDisk({
      beforeSync: ({ isWriteThrough }) => {
        if (!isFull || !isWriteThrough) return;
        isFull = false;
        throw enospc();
      },
    });
    const storage = await open(disk);
    await storage.swap(put('a', 1));
    isFull = true;
    const failing = storage.swap(put('a', 2, 1));
    const rival = storage.swap(put('a', 3, 1));
    expect(await storage.read(['a'])).toEqual([{ version: 1 }]);
    await expect(failing).rejects.toThrow('ENOSPC');
    expect(await rival).toBe(true);
    expect(await storage.read(['a'])).toEqual([{ version: 3 }]);
    await storage.close();
  });
});

describe('rewriting the log', () => {
  const TEXT = 'x'.repeat(1_000);

  it('[C4] fails without harm where there is no room, and is tried again', async () => {
    let limit = 110 * KIB;
    const size = () => [...disk.files().values()].reduce((sum, { length }) => sum + length, 0);
    let refusals = 0;
    const disk: PowerCutDisk = new PowerCutDisk({
      mostPerWrite: 4 * KIB,
      before: ({ kind }) => {
        if (kind !== 'write' || size() < limit) return;
        refusals += 1;
        throw enospc();
      },
    });
    const storage = await open(disk);
    // Forty kilobytes are valid. To write them again takes more room than there is when most of the log is outdated.
    const acknowledged: Record<string, unknown> = {};
    const write = async (round: number) => {
      const key = `k/${round % 40}`;
      const next = { version: round, text: TEXT };
      if (await storage.swap([{ key, next }])) acknowledged[key] = next;
    };
    for (let round = 0; round < 200; round += 1) await write(round).catch(() => undefined);
    expect(refusals).toBeGreaterThan(0);
    expect(await all(storage)).toEqual(acknowledged);
    limit = Number.POSITIVE_INFINITY;
    await sleep(1_100);
    for (let round = 200; round < 280; round += 1) await write(round);
    await storage.close();
    expect(size()).toBeLessThan(110 * KIB);
    const next = await reopen(disk);
    expect(await all(next)).toEqual(acknowledged);
    await next.close();
  });

  it('[C4] loses and undoes nothing of what is written meanwhile', async () => {
    const disk = new PowerCutDisk();
    const storage = await open(disk);
    // What may be found of each key: what was acknowledged last, and what was begun after it.
    const possible = new Map<string, (Entry | undefined)[]>();
    const write = async (key: string, next: Entry | null) => {
      const before = possible.get(key) ?? [undefined];
      const entry = next ?? undefined;
      possible.set(key, [...before, entry]);
      await storage.swap([{ key, next }]);
      const now = possible.get(key) ?? [];
      possible.set(key, now.slice(now.indexOf(entry)));
    };
    const lives: { readonly disk: PowerCutDisk; readonly possible: typeof possible }[] = [];
    const writing: Promise<unknown>[] = [];
    for (let n = 0; n < 50; n += 1) await write(`kept/${n}`, { version: 1 });
    for (let round = 1; round <= 300; round += 1) {
      const next = { version: round, text: TEXT };
      writing.push(write(`k/${(round * 7) % 30}`, next));
      writing.push(write(`new/${round}`, { version: round }));
      if (round > 9) writing.push(write(`new/${round - 9}`, null));
      if (round % 3 > 0) await new Promise((resolve) => setImmediate(resolve));
      if (round % 5 === 0) lives.push({ disk: disk.restart(), possible: new Map(possible) });
    }
    await Promise.all(writing);
    await storage.close();
    const names = [...disk.files().keys()].filter((path) => path.endsWith('.log'));
    expect(names.length).toBeLessThan(60);
    for (const life of lives) {
      const next = await open(life.disk);
      const found = await all(next);
      for (const [key, entries] of life.possible) expect(entries).toContainEqual(found[key]);
      await next.close();
    }
  }, 30_000);
});

describe('an outbox on a full disk', () => {
  let isFull = false;
  const faults: DiskFaults = {
    before: ({ kind }) => {
      if (isFull && kind === 'write') throw enospc();
    },
  };
  beforeEach(() => {
    isFull = false;
  });

  it('[C4] refuses each operation, knows none in its next life, and takes them when there is room', async () => {
    const disk = new PowerCutDisk(faults);
    const sent: string[] = [];
    const life = async (on: PowerCutDisk) =>
      new Outbox({
        storage: await open(on),
        fetch: async (input) => {
          sent.push(String(input));
          return new Response('{}', { status: 201 });
        },
      });
    const enqueue = (outbox: Outbox, n: number) =>
      outbox.enqueue({ url: `http://x/${n}`, json: { n } }, { key: `order-${n}`, lane: `l${n}` });
    const outbox = await life(disk);
    isFull = true;
    const ends = await Promise.allSettled(Array.from({ length: 20 }, (_, n) => enqueue(outbox, n)));
    for (const end of ends) {
      expect(end).toMatchObject({ status: 'rejected', reason: { code: 'STORAGE_FULL' } });
    }
    isFull = false;
    expect(await enqueue(outbox, 7)).toMatchObject({ status: 'queued' });
    await expect.poll(() => sent).toEqual(['http://x/7']);
    await outbox.close();
    const next = await life(disk.restart());
    for (let n = 8; n < 20; n += 1) {
      expect(await enqueue(next, n)).toMatchObject({ status: 'queued' });
    }
    await next.close();
  });

  it('[C4] does not report as cancelled what it could not write down', async () => {
    const disk = new PowerCutDisk(faults);
    let effects = 0;
    let answer = () => {};
    let begun = false;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const first = new Outbox({
      storage: await open(disk),
      retry: { baseMs: 10, capMs: 20 },
      fetch: async () => {
        begun = true;
        await answered;
        isFull = true;
        return new Response('', { status: 429, headers: { 'retry-after': '0' } });
      },
    });
    const { id } = await first.enqueue({ url: 'http://x/', json: {} });
    await expect.poll(() => begun).toBe(true);
    await first.cancel(id);
    answer();
    const end = await Promise.race([first.whenSettled(id), sleep(300).then(() => 'waiting')]);
    expect(end).toBe('waiting');
    expect(await first.find(id)).toMatchObject({ state: 'waiting' });
    await first.close().catch(() => undefined);
    isFull = false;
    const next = new Outbox({
      storage: await reopen(disk),
      fetch: async () => {
        effects += 1;
        return new Response('{}', { status: 201 });
      },
    });
    await expect.poll(async () => (await next.find(id))?.state).not.toBe('waiting');
    expect(effects).toBe((await next.find(id))?.state === 'done' ? 1 : 0);
    await next.close();
  });
});
