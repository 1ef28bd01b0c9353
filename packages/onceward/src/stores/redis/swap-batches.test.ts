import { describe, expect, it } from 'vitest';
import type { SwapResult } from '../../engine/record-store.ts';
import type { KeySwap } from './packed-swaps.ts';
import type { Reply } from './redis-driver.ts';
import { SwapBatches } from './swap-batches.ts';

const TIMEOUT_MS = 500;

function swapOf(key: string, revision = 2): KeySwap {
  return { key, expected: 1, overMark: false, next: null, revision, lifetime: '' };
}

function setUp(answer: (keys: readonly string[]) => Promise<Reply>, maxBatch = 128) {
  const sent: string[][] = [];
  const swaps = new SwapBatches({
    maxBatch,
    timeoutMs: TIMEOUT_MS,
    claim: () => Promise.reject(new Error('no claim is made here')),
    run: (keys) => {
      sent.push([...keys]);
      return answer(keys);
    },
    judge: () => ({ won: false, current: null }),
  });
  return { swaps, sent };
}

const allWon = async (keys: readonly string[]) => keys.map(() => 1);
const outcomeOf = (swap: Promise<SwapResult>) => swap.catch((error: unknown) => error);

describe('swaps that come together', () => {
  it('[E12] are not sent when the process stood still since, and those beside them are', async () => {
    const { swaps, sent } = setUp(allWon);
    const now = performance.now();
    const stale = outcomeOf(swaps.add(swapOf('stale'), now - 2 * TIMEOUT_MS));
    const fresh = outcomeOf(swaps.add(swapOf('fresh', 7), now));
    expect(await stale).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'no' });
    expect(await fresh).toEqual({ won: true, revision: 7 });
    expect(sent).toEqual([['fresh']]);
  });

  it('[E12] are not believed when their time, which began before they were sent, is over', async () => {
    const { swaps } = setUp(async (keys) => {
      await new Promise((resolve) => setTimeout(resolve, 60));
      return keys.map(() => 1);
    });
    const early = outcomeOf(swaps.add(swapOf('early'), performance.now() - TIMEOUT_MS + 50));
    const later = outcomeOf(swaps.add(swapOf('later', 7), performance.now()));
    expect(await early).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'unknown' });
    expect(await later).toEqual({ won: true, revision: 7 });
  });

  it('leave before the turn ends when there are enough of them, and then all that came in one breath', async () => {
    const { swaps, sent } = setUp(allWon);
    const now = performance.now();
    const many = Array.from({ length: 20 }, (_, at) => swaps.add(swapOf(`key ${at}`), now));
    await new Promise<void>((resolve) => process.nextTick(resolve));
    expect(sent.map((keys) => keys.length)).toEqual([20]);
    const few = Array.from({ length: 3 }, (_, at) => swaps.add(swapOf(`few ${at}`), now));
    await new Promise<void>((resolve) => process.nextTick(resolve));
    expect(sent).toHaveLength(1);
    await Promise.all([...many, ...few]);
    expect(sent.map((keys) => keys.length)).toEqual([20, 3]);
  });

  it('are no more than a batch may hold', async () => {
    const { swaps, sent } = setUp(allWon, 8);
    const now = performance.now();
    await Promise.all(Array.from({ length: 20 }, (_, at) => swaps.add(swapOf(`key ${at}`), now)));
    expect(sent.map((keys) => keys.length)).toEqual([8, 8, 4]);
  });
});
