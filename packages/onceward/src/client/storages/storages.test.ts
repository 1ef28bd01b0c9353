import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { STORAGE_LAWS } from '../../../test/client/storage-laws.ts';
import { memoryStorage } from './memory.ts';
import { openLogStorage } from './node-log.ts';
import type { OutboxStorage } from './outbox-storage.ts';
import { openSnapshotStorage } from './snapshot.ts';

const root = mkdtempSync(join(tmpdir(), 'onceward-outbox-'));
let folders = 0;
const newFolder = () => join(root, String(++folders));

afterAll(() => rmSync(root, { recursive: true, force: true }));

const STORAGES: Record<string, () => Promise<OutboxStorage>> = {
  memory: async () => memoryStorage(),
  'a snapshot': () => openSnapshotStorage({ load: async () => null, save: async () => {} }),
  'the log on disk': () => openLogStorage({ directory: newFolder() }),
};

describe.each(Object.keys(STORAGES))('outbox storage: %s', (name) => {
  it.each(Object.keys(STORAGE_LAWS))('[C4] %s', async (law) => {
    const storage = await (STORAGES[name] as () => Promise<OutboxStorage>)();
    try {
      await STORAGE_LAWS[law]?.(storage);
    } finally {
      await storage.close();
    }
  });
});

describe('outbox storage: a snapshot', () => {
  it('[C4] what was saved is there when it is opened again; what could not be saved is not', async () => {
    let text: string | null = null;
    let broken = false;
    const place = {
      load: async () => text,
      save: async (next: string) => {
        if (broken) throw new Error('no room');
        text = next;
      },
    };
    const first = await openSnapshotStorage(place);
    await first.swap([{ key: 'a', expected: null, next: { version: 1 } }]);
    broken = true;
    await expect(first.swap([{ key: 'b', next: { version: 1 } }])).rejects.toThrow('no room');
    expect(await first.read(['a', 'b'])).toEqual([{ version: 1 }, undefined]);
    broken = false;
    expect(await first.swap([{ key: 'c', next: { version: 1 } }])).toBe(true);
    const second = await openSnapshotStorage(place);
    expect(await second.read(['a', 'b', 'c'])).toEqual([{ version: 1 }, undefined, { version: 1 }]);
  });
});

describe('outbox storage: the log on disk', () => {
  it('[C4] everything is there after it was closed and opened again', async () => {
    const directory = newFolder();
    const first = await openLogStorage({ directory });
    await first.swap([
      { key: 'a', next: { version: 1 } },
      { key: 'b', next: { version: 1 } },
    ]);
    await first.swap([{ key: 'a', expected: 1, next: null }]);
    await first.close();
    const second = await openLogStorage({ directory });
    expect(await second.read(['a', 'b'])).toEqual([undefined, { version: 1 }]);
    expect(await second.range({ prefix: '', limit: 10 })).toHaveLength(1);
    await second.close();
  });

  it('[C9] a second opener is refused, or waits until the first has closed', async () => {
    const directory = newFolder();
    const first = await openLogStorage({ directory });
    await expect(openLogStorage({ directory })).rejects.toMatchObject({
      code: 'ONCE_STORE_LOCKED',
    });
    const patience = new AbortController();
    const given = openLogStorage({ directory, waitForLock: patience.signal });
    await first.swap([{ key: 'a', next: { version: 4 } }]);
    await first.close();
    const second = await given;
    expect(await second.read(['a'])).toEqual([{ version: 4 }]);
    const third = openLogStorage({ directory, waitForLock: patience.signal });
    patience.abort();
    await expect(third).rejects.toThrow();
    await second.close();
  });

  it('[C4] a log that is rewritten over and over stays small and loses nothing', async () => {
    const directory = newFolder();
    const storage = await openLogStorage({ directory, segmentBytes: 16 * 1_024 });
    const text = 'x'.repeat(1_000);
    for (let round = 1; round <= 60; round += 1) {
      const changes = Array.from({ length: 10 }, (_, i) => ({
        key: `k/${i}`,
        next: { version: round, text },
      }));
      await storage.swap([...changes, { key: `gone/${round}`, next: { version: 1 } }]);
      await storage.swap([{ key: `gone/${round}`, next: null }]);
    }
    await storage.close();
    const { readdirSync, statSync } = await import('node:fs');
    const bytes = readdirSync(directory).reduce(
      (sum, f) => sum + statSync(join(directory, f)).size,
      0,
    );
    // Sixty rounds of ten kilobytes went in; at most a handful of them may still be there.
    expect(bytes).toBeLessThan(300_000);
    const again = await openLogStorage({ directory });
    expect(await again.count('k/')).toBe(10);
    expect(await again.count('gone/')).toBe(0);
    expect(await again.read(['k/3'])).toEqual([{ version: 60, text }]);
    await again.close();
  });
});
