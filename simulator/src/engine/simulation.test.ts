import { beforeAll, describe, expect, it } from 'vitest';
import { runPlan, runSeeds } from '../run-worlds.ts';
import { drawPlan } from './draw-plan.ts';
import type { Simulation } from './simulation.ts';

const WORLDS = 320;

describe('simulated worlds', () => {
  const worlds: Simulation[] = [];

  beforeAll(async () => {
    for (let seed = 1; seed <= WORLDS; seed += 1) worlds.push(await runPlan(drawPlan(seed)));
  }, 60_000);

  it('[E1] [E2] [E3] [E4] [E5] [E6] [E7] [E8] [E9] [E10] [E11] [E12] [E14] break no promise, whatever befalls them', () => {
    const broken = worlds.flatMap(({ plan, violation }) =>
      violation === null ? [] : [`seed ${plan.seed}: ${violation.rule}`],
    );
    expect(broken).toEqual([]);
  });

  /** A judge who never sees anything proves nothing: each of these must have come before it, and often. */
  const sights: [what: string, pattern: RegExp, least: number][] = [
    ['[E1] duplicates that are replayed', /ends: replayed/, 300],
    [
      '[E2] records that are forgotten when their time is up',
      /(committed|rejected) r\d+ → absent/,
      50,
    ],
    ['[E3] other requests under the same key', /refused, mismatch/, 50],
    ['[E4] duplicates that wait in vain', /refused, in_progress/, 100],
    ['[E5] claims that are renewed', /pending r\d+ → pending \(attempt 1\)/, 300],
    ['[E6] claims that are taken over', /pending r\d+ → pending \(attempt [2-9]\)/, 20],
    ['[E6] claims that go in doubt', /pending r\d+ → in_doubt/, 100],
    ['[E6] doubts that a late commit resolves', /in_doubt r\d+ → committed/, 10],
    ['[E6] doubts that are voided', /in_doubt r\d+ → absent/, 3],
    ['[E6] probes', /probes fence/, 5],
    ['[E10] records that are spoilt', /is spoilt/, 10],
    ['[E12] callers who are refused while the store is away', /refused, store_unavailable/, 30],
    ['[E12] effects that run unprotected', /an unprotected effect happens/, 1],
    ['[E14] steps', /effect step \d of fence/, 100],
    ['crashes at a crash point', /^at (before|after)-/, 30],
    ['engines that are closed', /closes$/, 10],
    ['requests that are sent twice', /: repeated$/, 30],
    ['other crashes', /dies$/, 60],
    ['pauses', /stands still/, 50],
    ['clocks that jump', /jumps by/, 30],
    ['replies that are lost', /: lost_reply$/, 100],
    ['writes that come late', /: late$/, 50],
    ['effects whose record could not be written', /not recorded/, 10],
    ['claims that are given back', /→ released|pending r\d+ → absent/, 100],
  ];
  for (const [what, pattern, least] of sights) {
    it(`have seen ${what}`, () => {
      const seen = worlds.flatMap(({ trace }) => trace).filter(({ text }) => pattern.test(text));
      expect(seen.length).toBeGreaterThanOrEqual(least);
    });
  }

  it('[E11] have whole milliseconds on every clock', () => {
    const moments = worlds.flatMap(({ trace }) => trace.map(({ at }) => at));
    expect(moments.filter((at) => !Number.isInteger(at))).toEqual([]);
  });

  it('go the same way whenever they are lived through', async () => {
    for (const world of worlds.slice(0, 20)) {
      const again = await runPlan(drawPlan(world.plan.seed));
      expect(again.trace).toEqual(world.trace);
    }
  });

  it('go the same way alone and beside each other', async () => {
    const result = await runSeeds({ from: 1, count: WORLDS });
    expect(result).toMatchObject({ seeds: WORLDS, findings: [] });
  });
});
