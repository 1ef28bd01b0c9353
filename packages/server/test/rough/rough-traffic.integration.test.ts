import { describe, expect, it } from 'vitest';
import { percentile, runRounds, TARGETS } from './run-rounds.ts';

const SEED = 20_264;

/** The short form of `npm run rough`. */
describe.each([
  ['gateway', '[H15]'],
  ['server', '[U3]'],
] as const)('rough traffic at the %s', (name, id) => {
  it(`${id} [T4] leaves it serving, holding nothing, with one effect per key`, async () => {
    const { failures, probesMs, memory } = await runRounds({
      make: TARGETS[name],
      seed: SEED,
      rounds: 120,
      restartEvery: 30,
      maxFailures: 1,
    });
    expect(failures).toEqual([]);
    expect(memory).toBeNull();
    expect(percentile(probesMs, 0.99)).toBeLessThan(3_000);
  }, 600_000);
});
