import { describe, expect, it } from 'vitest';
import { simulateOutbox } from './outbox-simulation.ts';

const SEEDS = Number(process.env.OUTBOX_SEEDS ?? 150);
const FROM = Number(process.env.OUTBOX_FROM ?? 1);

describe('outbox and server under seeds', () => {
  it('[C4] [C11] kills, lost answers, failing writes and wrong clocks leave one effect each, in order, nothing lost', async () => {
    let kills = 0;
    let effects = 0;
    const broken: string[] = [];
    for (let seed = FROM; seed < FROM + SEEDS; seed += 1) {
      const run = await simulateOutbox(seed);
      kills += run.kills;
      effects += run.effects;
      if (run.violations.length > 0) broken.push(`seed ${seed}: ${run.violations.join('; ')}`);
    }
    expect(broken).toEqual([]);
    // A storm in which nothing happened would prove nothing.
    expect(kills).toBeGreaterThan(SEEDS * 5);
    expect(effects).toBeGreaterThan(SEEDS);
  }, 120_000);

  it('[C4] one seed gives one history', async () => {
    expect(await simulateOutbox(7)).toEqual(await simulateOutbox(7));
  });
});
