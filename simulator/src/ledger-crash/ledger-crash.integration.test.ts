import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cleanUpAfterTheDead, whyNoLoopDisk } from '../crash/loop-disk.ts';
import { cutLedgerPower } from './cut-power.ts';
import { killLedgerWriters } from './kill-writers.ts';

/** The short form; `npm run crash:ledger` kills two hundred times and cuts the power twenty times. */
describe('kill -9 in the midst of batches, checkpoints and snapshots', () => {
  it('[L8] loses no acknowledged transaction and doubles none; sums are zero, the chain is whole', async () => {
    const result = await killLedgerWriters(8);
    expect(result.complaints).toEqual([]);
    expect(result.paid).toBeGreaterThan(100);
    expect(result.wrote).toBeGreaterThan(8);
  });
});

const unavailable = await whyNoLoopDisk();

// Needs root and loop devices; the reason stands in the title where they are not to be had.
describe.skipIf(unavailable !== null)(
  `a power cut under log and state ${unavailable ?? ''}`,
  () => {
    beforeAll(cleanUpAfterTheDead);
    afterAll(cleanUpAfterTheDead);

    it('[L8] loses no acknowledged transaction and doubles none; sums are zero, the chain is whole', async () => {
      const result = await cutLedgerPower(2);
      expect(result.complaints).toEqual([]);
      expect(result.paid).toBeGreaterThan(100);
    });
  },
);
