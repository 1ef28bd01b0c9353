import { expect, it } from 'vitest';
import { Rounds } from './rounds.ts';

async function* pagesOf(sizes: readonly number[]): AsyncGenerator<number> {
  yield* sizes;
}

async function shareOf(rounds: Rounds<number>): Promise<number[]> {
  const pages: number[] = [];
  for await (const page of rounds.nextShare()) pages.push(page);
  return pages;
}

it('[E11] goes on where it stopped, ends a share with the round, and then begins again', async () => {
  const rounds = new Rounds(
    () => pagesOf([3, 4, 5, 6]),
    (size) => size,
    7,
  );
  expect(await shareOf(rounds)).toEqual([3, 4]);
  expect(await shareOf(rounds)).toEqual([5, 6]);
  expect(await shareOf(rounds)).toEqual([]);
  expect(await shareOf(rounds)).toEqual([3, 4]);
});

it('[E11] begins again after an error', async () => {
  let begun = 0;
  const rounds = new Rounds<number>(
    async function* () {
      begun += 1;
      yield 1;
      if (begun === 1) throw new Error('the store is gone');
      yield 2;
    },
    (size) => size,
    100,
  );
  await expect(shareOf(rounds)).rejects.toThrow('the store is gone');
  expect(await shareOf(rounds)).toEqual([1, 2]);
});

it('[E11] a pass that stops in the middle of a share leaves the rest to the next', async () => {
  const rounds = new Rounds(
    () => pagesOf([1, 2, 3]),
    (size) => size,
    100,
  );
  for await (const page of rounds.nextShare()) {
    expect(page).toBe(1);
    break;
  }
  expect(await shareOf(rounds)).toEqual([2, 3]);
});
