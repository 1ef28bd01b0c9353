import { describe, expect, it } from 'vitest';
import { describeFailure, percentile, runRounds, TARGETS } from './run-rounds.ts';

const SEED = 20_264;

/** The short form of `npm run rough`. */
describe.each([
  ['gateway', '[H15]'],
  ['server', '[U3]'],
] as const)('rough traffic at the %s', (name, id) => {
  it(`${id} leaves it serving, holding nothing, with one effect per key`, async () => {
    const { failures, probesMs, memory } = await runRounds({
      make: TARGETS[name],
      seed: SEED,
      rounds: 150,
      restartEvery: 50,
      maxFailures: 1,
    });
    const command = `npm run rough -- --target ${name} --seed ${SEED} --restart-every 50`;
    expect(failures.map((failure) => describeFailure(failure, command))).toEqual([]);
    expect(memory).toBeNull();
    expect(percentile(probesMs, 0.99)).toBeLessThan(3_000);
  }, 600_000);
});
