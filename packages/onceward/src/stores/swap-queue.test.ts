import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { SwapQueue } from './swap-queue.ts';

interface Batch {
  readonly items: readonly number[];
  finish(): void;
}

/** A queue whose batches end when the test says so. */
function queueOf(
  options: { lanes?: number; besideFrom?: number; maxBatch?: number; timeoutMs?: number } = {},
) {
  const batches: Batch[] = [];
  const queue = new SwapQueue<number, string>({
    lanes: options.lanes ?? 1,
    besideFrom: options.besideFrom ?? 1,
    maxBatch: options.maxBatch ?? 100,
    timeoutMs: options.timeoutMs ?? 10_000,
    run: (items) =>
      new Promise((resolve) => {
        batches.push({ items, finish: () => resolve(items.map((item) => `done ${item}`)) });
      }),
  });
  return { queue, batches };
}

describe('the queue of swaps', () => {
  it('gathers what comes together and what comes while a batch is under way', async () => {
    const { queue, batches } = queueOf();
    const first = [1, 2, 3].map((item) => queue.add(item));
    await sleep(5);
    const second = [4, 5].map((item) => queue.add(item));
    await sleep(5);
    expect(batches.map((batch) => batch.items)).toEqual([[1, 2, 3]]);
    batches[0]?.finish();
    expect(await Promise.all(first)).toEqual(['done 1', 'done 2', 'done 3']);
    await sleep(5);
    expect(batches.map((batch) => batch.items)).toEqual([
      [1, 2, 3],
      [4, 5],
    ]);
    batches[1]?.finish();
    expect(await Promise.all(second)).toEqual(['done 4', 'done 5']);
  });

  it('keeps to the size of a batch and the number of lanes', async () => {
    const { queue, batches } = queueOf({ lanes: 2, maxBatch: 2 });
    const all = [1, 2, 3, 4, 5].map((item) => queue.add(item));
    await sleep(10);
    expect(batches.map((batch) => batch.items)).toEqual([
      [1, 2],
      [3, 4],
    ]);
    batches[0]?.finish();
    await sleep(10);
    expect(batches).toHaveLength(3);
    for (const batch of batches) batch.finish();
    expect(await Promise.all(all)).toHaveLength(5);
  });

  it('keeps to the bytes that a batch may carry, and lets one item exceed them', async () => {
    const batches: (readonly number[])[] = [];
    const queue = new SwapQueue<number, number>({
      lanes: 1,
      maxBatch: 100,
      maxBytes: 10,
      bytesOf: (item) => item,
      timeoutMs: 10_000,
      run: async (items) => {
        batches.push(items);
        return items;
      },
    });
    const all = [4, 6, 1, 50, 3, 3].map((item) => queue.add(item));
    expect(await Promise.all(all)).toEqual([4, 6, 1, 50, 3, 3]);
    expect(batches).toEqual([[4, 6], [1], [50], [3, 3]]);
  });

  it('takes a second lane only when enough wait for it', async () => {
    const { queue, batches } = queueOf({ lanes: 2, besideFrom: 3 });
    const all = [queue.add(1)];
    await sleep(5);
    all.push(queue.add(2), queue.add(3));
    await sleep(5);
    expect(batches.map((batch) => batch.items)).toEqual([[1]]);
    all.push(queue.add(4));
    await sleep(5);
    expect(batches.map((batch) => batch.items)).toEqual([[1], [2, 3, 4]]);
    for (const batch of batches) batch.finish();
    expect(await Promise.all(all)).toHaveLength(4);
  });

  it('[E12] never sends what has waited too long, and says that it was not applied', async () => {
    const { queue, batches } = queueOf({ timeoutMs: 60 });
    const sent = queue.add(1).catch((error: unknown) => error);
    await sleep(5);
    const waiting = queue.add(2).catch((error: unknown) => error);
    expect(await sent).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'unknown' });
    expect(await waiting).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'no' });
    batches[0]?.finish();
    await sleep(10);
    expect(batches).toHaveLength(1);
  });

  it('fails all items of a batch that fails, and goes on', async () => {
    let failing = true;
    const queue = new SwapQueue<number, string>({
      lanes: 1,
      maxBatch: 10,
      timeoutMs: 10_000,
      run: async (items) => {
        if (failing) throw new Error('no luck');
        return items.map(String);
      },
    });
    const results = await Promise.allSettled([queue.add(1), queue.add(2)]);
    expect(results.map((result) => result.status)).toEqual(['rejected', 'rejected']);
    failing = false;
    expect(await queue.add(3)).toBe('3');
  });
});
