import { describe, expect, it } from 'vitest';
import { huntMutant } from './hunt-mutant.ts';
import { MUTANTS } from './mutant-list.ts';

/** A handful of the gate; `npm run mutants` lets all of them loose. */
const SOME = [
  'writes do not carry their fence',
  'a lease that holds is ignored',
  'the near tier grants a claim',
  'the answer is given before it is durable',
  'an effect that must not be repeated is taken over',
  'an unreadable record counts as absent',
  'the near tier ignores the scope',
  'a finished step is run again',
  'an upstream that fell silent is taken not to have acted',
  'a group turns back from a step in doubt',
  'the page at the end of a redirect counts as done',
];

describe('a planted bug', () => {
  for (const mutant of MUTANTS.filter(({ name }) => SOME.includes(name))) {
    const { name, breaks } = mutant;
    it(`[${breaks}] is found, and its story fits a screen: ${name}`, async () => {
      const caught = await huntMutant(mutant, 3_000);
      expect(caught.rule).not.toBeNull();
      expect(caught.lines).toBeLessThanOrEqual(25);
      expect(caught.story).toContain('VIOLATION');
    });
  }

  it('is none of the simulator: the program as it is survives the same seeds', async () => {
    const caught = await huntMutant({ name: 'no bug at all', breaks: '', edits: [] }, 500);
    expect(caught).toMatchObject({ seeds: 500, rule: null });
  });

  it('is not looked for in vain: every name above is on the list', () => {
    const names = MUTANTS.map(({ name }) => name);
    expect(SOME.filter((name) => !names.includes(name))).toEqual([]);
  });
});
