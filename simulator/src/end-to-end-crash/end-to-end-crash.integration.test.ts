import { describe, expect, it } from 'vitest';
import { findComplaints } from './journal.ts';
import { runCrashes } from './run-crashes.ts';

/** The short form of `npm run crash:end-to-end`. */
describe('a device, a gateway and an API that are killed at random', () => {
  it('[E16] [C14] [C15] leave one effect for each intention, and every report of the device is true', {
    timeout: 300_000,
  }, async () => {
    const report = await runCrashes({ rounds: 6, random: Math.random });
    expect(report.complaints).toEqual([]);
    expect(report.kills.device).toBe(6);
    expect(report.endings.filter(({ state }) => state === 'done').length).toBeGreaterThan(5);
    expect(report.endings.filter(({ outcome }) => outcome === 'undone').length).toBeGreaterThan(0);
    expect(report.charges).toBeGreaterThan(10);
  });

  it('a report that is not true is complained about', () => {
    const charge = { name: 'a', undo: false, key: 'k' };
    const ending = { names: ['a'], state: 'failed', wasCancelled: false } as const;
    expect(findComplaints([charge], [{ ...ending, outcome: 'refused' }])).toHaveLength(1);
    expect(findComplaints([], [{ ...ending, state: 'done', outcome: null }])).toHaveLength(1);
    expect(findComplaints([charge, charge], [])).toHaveLength(1);
    expect(findComplaints([charge], [{ ...ending, outcome: 'unknown' }])).toEqual([]);
  });
});
