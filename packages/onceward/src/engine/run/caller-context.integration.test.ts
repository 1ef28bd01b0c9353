import { AsyncLocalStorage } from 'node:async_hooks';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { nodePlatform } from '../../runtime/node-platform.ts';
import { nodeWorld } from '../../runtime/node-world.ts';
import { memoryStore } from '../../stores/memory/index.ts';
import { openWalStore } from '../../stores/wal/index.ts';
import { committed, operation } from '../engine.fixture.ts';
import { Engine } from '../engine.ts';
import type { RecordStore } from '../record-store.ts';

const callers = new AsyncLocalStorage<number>();

/** A store whose swaps are promises and nothing else. */
function waitedFor(inner: RecordStore): RecordStore {
  return {
    traits: inner.traits,
    read: (id) => inner.read(id),
    swap: (id, expected, next) => inner.swap(id, expected, next),
    scan: (query) => inner.scan(query),
    count: () => inner.count(),
    close: () => inner.close(),
  };
}

const stores: Record<string, (folder: string) => RecordStore | Promise<RecordStore>> = {
  memory: () => memoryStore(),
  'a store that is waited for': () => waitedFor(memoryStore()),
  wal: (directory) => openWalStore({ directory }),
};

for (const [name, open] of Object.entries(stores)) {
  it(`effects, events and what follows run in the context of their own caller: ${name}`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'onceward-context-'));
    const store = await open(folder);
    const strays: string[] = [];
    const note = (where: string, caller: number) => {
      if (callers.getStore() !== caller) strays.push(`${where} of ${caller}`);
    };
    const engine = new Engine({
      world: nodeWorld(),
      platform: nodePlatform(),
      store,
      sweep: false,
      observe: (event) => {
        if ('id' in event) note(event.type, Number(event.id.key));
      },
    });
    try {
      for (let round = 0; round < 5; round += 1) {
        const running = Array.from({ length: 20 }, (_, i) => {
          const caller = round * 20 + i;
          const id = { scope: 's', key: String(caller) };
          return callers.run(caller, async () => {
            await engine.execute({ ...operation, id }, async () => {
              note('effect', caller);
              await new Promise((resolve) => setTimeout(resolve, i % 3));
              return committed('done');
            });
            note('what follows', caller);
          });
        });
        await Promise.all(running);
      }
    } finally {
      await engine.close();
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    }
    expect(strays).toEqual([]);
  });
}
