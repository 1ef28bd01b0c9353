import { describe, expect, it } from 'vitest';
import { runSeeds } from '../run-worlds.ts';
import { WORLDS } from '../worlds.ts';
import { drawEndToEnd } from './draw-plan.ts';
import { runEndToEnd } from './shrink.ts';

const SEEDS = Number(process.env.END_TO_END_SEEDS ?? 120);
const FROM = Number(process.env.END_TO_END_FROM ?? 1);

describe('a device, its gateway, jobs and ledger under seeds', () => {
  it('[E16] [C14] [C15] lost answers, silent upstreams, kills and outages leave one effect for each intention, and every report is true', async () => {
    const { seeds, findings } = await runSeeds({ from: FROM, count: SEEDS }, WORLDS['end-to-end']);
    expect(seeds).toBe(SEEDS);
    expect(findings.map(({ seed, violation }) => `${seed}: ${violation.rule}`)).toEqual([]);
  }, 120_000);

  it('worlds are stormy: things happen, are done, are refused, stay unknown and are resolved', async () => {
    const told: string[] = [];
    let effects = 0;
    for (let seed = 1; seed <= 80; seed += 1) {
      const world = await runEndToEnd(drawEndToEnd(seed));
      effects += world.judge.effects.length;
      told.push(...world.trace.map(({ text }) => text));
    }
    const times = (pattern: RegExp) => told.filter((text) => pattern.test(text)).length;
    expect(effects).toBeGreaterThan(80);
    expect(times(/ is done$/)).toBeGreaterThan(50);
    expect(times(/ is refused: /)).toBeGreaterThan(5);
    expect(times(/ is unknown: /)).toBeGreaterThan(5);
    expect(times(/ is undone: /)).toBeGreaterThan(1);
    expect(times(/ is cancelled$/)).toBeGreaterThan(1);
    expect(times(/ is written$/)).toBeGreaterThan(3);
    expect(times(/operator says .* is committed/)).toBeGreaterThan(1);
    expect(times(/operator says .* is void/)).toBeGreaterThan(1);
    expect(times(/^-- kill /)).toBeGreaterThan(40);
  }, 60_000);

  it('one seed gives one history', async () => {
    const tell = async () =>
      (await runEndToEnd(drawEndToEnd(11))).trace.map(({ at, text }) => `${at} ${text}`);
    expect(await tell()).toEqual(await tell());
  });
});
