import { describe, expect, it } from 'vitest';
import { StoreError } from '../../engine/errors.ts';
import type { SwapResult } from '../../engine/record-store.ts';
import type { KeySwap } from './key-swap.ts';
import type { Reply } from './redis-driver.ts';
import { SwapBatches } from './swap-batches.ts';

const TIMEOUT_MS = 500;

function swapOf(key: string, revision = 2): KeySwap {
  return { key, expected: 1, overMark: false, next: null, revision, lifetime: '' };
}

function claimOf(key: string, revision = 2): KeySwap {
  return { ...swapOf(key, revision), expected: null };
}

type Answer = (keys: readonly string[]) => Promise<Reply>;

function setUp(answer: Answer, maxBatch = 128, answerTogether: Answer = async () => 1) {
  const sent: string[][] = [];
  const together: string[][] = [];
  const batches = new SwapBatches({
    maxBatch,
    timeoutMs: TIMEOUT_MS,
    claim: () => Promise.reject(new Error('no lone claim is made here')),
    claimAll: (swaps) => {
      const keys = swaps.map(({ key }) => key);
      together.push(keys);
      return answerTogether(keys);
    },
    run: (swaps) => {
      const keys = swaps.map(({ key }) => key);
      sent.push(keys);
      return answer(keys);
    },
    judge: () => ({ won: false, current: null }),
  });
  const add = (swap: KeySwap, addedAt = performance.now()) =>
    new Promise<SwapResult>((resolve, reject) => {
      batches.add({ ...swap, addedAt, resolve, reject });
    });
  return { add, sent, together };
}

const allWon = async (keys: readonly string[]) => keys.map(() => 1);
const outcomeOf = (swap: Promise<SwapResult>) => swap.catch((error: unknown) => error);

describe('swaps that come together', () => {
  it('[E12] are not sent when the process stood still since, and those beside them are', async () => {
    const { add, sent } = setUp(allWon);
    const now = performance.now();
    const stale = outcomeOf(add(swapOf('stale'), now - 2 * TIMEOUT_MS));
    const fresh = outcomeOf(add(swapOf('fresh', 7), now));
    expect(await stale).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'no' });
    expect(await fresh).toEqual({ won: true, revision: 7 });
    expect(sent).toEqual([['fresh']]);
  });

  it('[E12] are not believed when their time, which began before they were sent, is over', async () => {
    const { add } = setUp(async (keys) => {
      await new Promise((resolve) => setTimeout(resolve, 60));
      return keys.map(() => 1);
    });
    const early = outcomeOf(add(swapOf('early'), performance.now() - TIMEOUT_MS + 50));
    const later = outcomeOf(add(swapOf('later', 7), performance.now()));
    expect(await early).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'unknown' });
    expect(await later).toEqual({ won: true, revision: 7 });
  });

  it('leave before the turn ends when there are enough of them, and then all that came in one breath', async () => {
    const { add, sent } = setUp(allWon);
    const now = performance.now();
    const many = Array.from({ length: 20 }, (_, at) => add(swapOf(`key ${at}`), now));
    await new Promise<void>((resolve) => process.nextTick(resolve));
    expect(sent.map((keys) => keys.length)).toEqual([20]);
    const few = Array.from({ length: 3 }, (_, at) => add(swapOf(`few ${at}`), now));
    await new Promise<void>((resolve) => process.nextTick(resolve));
    expect(sent).toHaveLength(1);
    await Promise.all([...many, ...few]);
    expect(sent.map((keys) => keys.length)).toEqual([20, 3]);
  });

  it('are no more than a batch may hold', async () => {
    const { add, sent } = setUp(allWon, 8);
    const now = performance.now();
    await Promise.all(Array.from({ length: 20 }, (_, at) => add(swapOf(`key ${at}`), now)));
    expect(sent.map((keys) => keys.length)).toEqual([8, 8, 4]);
  });
});

describe('claims that come together', () => {
  const keys = ['a', 'b', 'c'];
  const refusal =
    (applied: 'no' | 'unknown', why = 'no') =>
    async () => {
      throw new StoreError('ONCE_STORE_UNAVAILABLE', why, { applied });
    };

  it('take one plain command, and what replaces something goes beside them', async () => {
    const { add, sent, together } = setUp(allWon);
    const results = await Promise.all([
      add(claimOf('a', 5)),
      add(swapOf('old', 6)),
      add(claimOf('b', 7)),
    ]);
    expect(results.map((result) => result.won && result.revision)).toEqual([5, 6, 7]);
    expect([together, sent]).toEqual([[['a', 'b']], [['old']]]);
  });

  it('[E1] are never made together on one key', async () => {
    const { add, sent, together } = setUp(async () => [1, null]);
    const results = await Promise.all([add(claimOf('a', 5)), add(claimOf('a', 6))]);
    expect(results.map(({ won }) => won)).toEqual([true, false]);
    expect([together, sent]).toEqual([[], [['a', 'a']]]);
  });

  it('[E1] are decided one by one where a key is taken, and for a while after that', async () => {
    const { add, sent, together } = setUp(
      async (all) => all.map((_, at) => (at === 1 ? null : 1)),
      128,
      async () => 0,
    );
    for (let round = 0; round < 10; round += 1) {
      const results = await Promise.all(keys.map((key) => add(claimOf(key))));
      expect(results.map(({ won }) => won)).toEqual([true, false, true]);
    }
    expect(sent).toHaveLength(10);
    expect(together).toHaveLength(2);
  });

  it('are tried one batch at a time, as long as keys are taken', async () => {
    const { add, together } = setUp(allWon, 128, async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return 0;
    });
    const swaps: Promise<SwapResult>[] = [];
    for (let batch = 0; batch < 40; batch += 1) {
      swaps.push(...keys.map((key) => add(claimOf(`${key} ${batch}`))));
      await new Promise((resolve) => setTimeout(resolve, batch === 0 ? 40 : 0));
    }
    await Promise.all(swaps);
    // The first, and what was tried after eight others each time.
    expect(together.length).toBeLessThanOrEqual(5);
  });

  it.each([
    ['NOPERM this user has no permissions', 1],
    ['ERR unknown command', 1],
    ['OOM command not allowed', 2],
  ] as const)('are decided one by one where the command is refused: %s', async (why, tries) => {
    const { add, sent, together } = setUp(allWon, 128, refusal('no', why));
    for (let round = 0; round < 10; round += 1) {
      const results = await Promise.all(keys.map((key) => add(claimOf(key))));
      expect(results.every(({ won }) => won)).toBe(true);
    }
    expect(sent).toEqual(Array(10).fill(keys));
    expect(together).toHaveLength(tries);
  });

  it('[E12] may have been made before the script was refused, if something sent them twice', async () => {
    const { add } = setUp(refusal('no'), 128, async () => 0);
    const results = await Promise.all(keys.map((key) => outcomeOf(add(claimOf(key)))));
    for (const result of results) expect(result).toMatchObject({ applied: 'unknown' });
  });

  it('[E12] were not made where the command is refused and the script too', async () => {
    const { add } = setUp(refusal('no'), 128, refusal('no'));
    const results = await Promise.all(keys.map((key) => outcomeOf(add(claimOf(key)))));
    for (const result of results) expect(result).toMatchObject({ applied: 'no' });
  });

  it('are not tried while Redis takes its time: they would have to be sent again', async () => {
    const slowly = async () => {
      await new Promise((resolve) => setTimeout(resolve, TIMEOUT_MS / 4 + 20));
      return 1;
    };
    const { add, sent, together } = setUp(slowly, 128, slowly);
    for (let round = 0; round < 3; round += 1) {
      await Promise.all(keys.map((key) => add(claimOf(key))));
    }
    expect([together, sent]).toEqual([[keys], [keys, keys]]);
  });

  it('[E12] are not retried when their outcome is unknown', async () => {
    const { add, sent } = setUp(allWon, 128, refusal('unknown'));
    const results = await Promise.all(keys.map((key) => outcomeOf(add(claimOf(key)))));
    for (const result of results) expect(result).toMatchObject({ applied: 'unknown' });
    expect(sent).toEqual([]);
  });

  it('[E12] are not made one by one when their time is over', async () => {
    const { add, sent } = setUp(allWon, 128, async () => {
      await new Promise((resolve) => setTimeout(resolve, 60));
      return 0;
    });
    const early = outcomeOf(add(claimOf('early'), performance.now() - TIMEOUT_MS + 50));
    const later = outcomeOf(add(claimOf('later', 7)));
    expect(await early).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'unknown' });
    expect(await later).toEqual({ won: true, revision: 7 });
    expect(sent).toEqual([['later']]);
  });
});
