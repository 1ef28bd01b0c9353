import { describe, expect, it } from 'vitest';
import { realWorld } from './client-world.ts';
import { backoffMs, parseRetryAfter, RETRY_DEFAULTS } from './retry-policy.ts';

const at = (roll: number) => ({ ...realWorld, random: () => roll });

describe('the pause before another try', () => {
  it('[C5] doubles from one second up to thirty, of which half is left to chance', () => {
    const longest = [1, 2, 3, 4, 5, 6, 60].map((n) => backoffMs(RETRY_DEFAULTS, n, at(1)));
    expect(longest).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    const shortest = [1, 2, 6].map((n) => backoffMs(RETRY_DEFAULTS, n, at(0)));
    expect(shortest).toEqual([500, 1_000, 15_000]);
  });

  it('[C5] by default five attempts are made', () => {
    expect(RETRY_DEFAULTS.maxAttempts).toBe(5);
  });
});

describe('Retry-After', () => {
  const now = Date.parse('Sat, 22 Nov 2025 10:00:00 GMT');

  it.each<[string | null, number | null]>([
    ['0', 0],
    ['120', 120_000],
    [' 7 ', 7_000],
    ['Sat, 22 Nov 2025 10:00:30 GMT', 30_000],
    ['Saturday, 22-Nov-25 10:00:30 GMT', 30_000],
    ['Sat, 22 Nov 2025 09:00:00 GMT', 0],
    [null, null],
    ['', null],
    ['soon', null],
    ['-3', null],
    ['1.5', null],
  ])('[C5] %j is understood as %j milliseconds', (value, ms) => {
    expect(parseRetryAfter(value, now)).toBe(ms);
  });
});
