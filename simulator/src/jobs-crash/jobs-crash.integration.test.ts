import { describe, expect, it } from 'vitest';
import { runCrashes } from './run-crashes.ts';

/** The short form of `npm run crash:jobs`. */
describe('gates, managers and stores that are killed under load', () => {
  it.each(['wal', 'postgres'] as const)(
    '[J3] [J6] lose no acknowledged job on %s, and start none twice that may run once',
    { timeout: 300_000 },
    async (store) => {
      const report = await runCrashes({ store, kills: 8, clients: 8, random: Math.random });
      expect(report.complaints).toEqual([]);
      expect(report.acknowledged).toBeGreaterThan(8);
      expect(Object.values(report.kills).reduce((sum, count) => sum + count)).toBe(8);
    },
  );
});
