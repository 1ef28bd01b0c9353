import { join } from 'node:path';
import { openWalStore } from 'onceward/wal';
import { KEEP_UNTIL, measureCycles, nextId, SAMPLE } from './cycles.ts';

export interface GrowthTask {
  readonly folder: string;
  readonly records: number;
  /** Fill the store first; otherwise open one that was filled. */
  readonly fill: boolean;
}

export interface GrowthFigures {
  readonly openMs: number;
  readonly bytesPerRecord: number;
  readonly cpuMicros: number;
}

const task = JSON.parse(process.argv[2]!) as GrowthTask;
const before = memoryInUse();
const began = performance.now();
const store = await openWalStore({ directory: join(task.folder, 'wal') });
const openMs = performance.now() - began;
const settled = { bytes: SAMPLE.commit, state: 'committed', dueAt: KEEP_UNTIL } as const;
if (task.fill) {
  const left = { count: task.records };
  await Promise.all(
    Array.from({ length: 512 }, async () => {
      while (left.count > 0) {
        left.count -= 1;
        await store.swap(nextId(), null, settled);
      }
    }),
  );
}
const bytesPerRecord = (memoryInUse() - before) / task.records;
const { committed } = await store.count();
if (committed < task.records) throw new Error(`${committed} records of ${task.records}`);
const target = {
  name: 'wal store',
  async cycle() {
    const scope = 'cycles';
    const id = { scope, key: `${process.pid}-${Math.random()}` };
    const claimed = await store.swap(id, null, {
      ...settled,
      bytes: SAMPLE.claim,
      state: 'pending',
    });
    if (!claimed.won) throw new Error('the claim lost');
    const done = await store.swap(id, claimed.revision, settled);
    if (!done.won) throw new Error('the settle lost');
    // Forgotten again, so that the number of live records stays what it is.
    await store.swap(id, done.revision, null);
  },
  close: () => store.close(),
};
await measureCycles(target, 64, 500);
const { cpuMicros } = await measureCycles(target, 64, 2_000);
await store.close();
process.send!({ openMs, bytesPerRecord, cpuMicros } satisfies GrowthFigures, () => process.exit());

/** Heap and buffers that are still in use after a collection. */
function memoryInUse(): number {
  globalThis.gc!();
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return heapUsed + external + arrayBuffers;
}
