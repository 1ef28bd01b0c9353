import { describe, expect, it } from 'vitest';
import { killLedgerWriters } from './kill-writers.ts';

/** The short form; `npm run crash:ledger` kills two hundred times. */
describe('kill -9 in the midst of batches, checkpoints and snapshots', () => {
  it('[L8] loses no acknowledged transaction and doubles none; sums are zero, the chain is whole', async () => {
    const result = await killLedgerWriters(8);
    expect(result.complaints).toEqual([]);
    expect(result.paid).toBeGreaterThan(100);
    expect(result.wrote).toBeGreaterThan(8);
  });
});
