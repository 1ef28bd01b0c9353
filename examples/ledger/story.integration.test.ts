import { expect, it } from 'vitest';
import { tellStory } from './story.ts';

it('[L8] [L3] money moves once through retries and crashes', async () => {
  const { done, rejected, balances, expected, isSound } = await tellStory();
  expect(done).toBeGreaterThan(0);
  expect(done + rejected).toBe(200);
  expect(balances).toEqual(expected);
  expect(isSound).toBe(true);
});
