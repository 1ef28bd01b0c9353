import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LmdbHome } from '../src/home/lmdb-home.ts';
import { openLedger } from '../src/open-ledger.ts';
import {
  CALLER,
  makeAccounts,
  makeFolder,
  type TestLedger,
  transferBody,
} from './manual-ledger.ts';

const MIB = 1_024 * 1_024;
/** About 200 KiB of block each, so that a short test makes many times what may wait in memory. */
const BIG = transferBody(
  ...Array.from({ length: 1_000 }, () => ({ from: 'acct_0', to: 'acct_1', amount: 1 })),
);
const TRANSACTIONS = 180;
const ALLOWED = 16 * MIB;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function bytesHeld(): number {
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}

let folder: Awaited<ReturnType<typeof makeFolder>>;
let ledger: TestLedger;

beforeEach(async () => {
  folder = await makeFolder();
  ledger = await openLedger({ directory: join(folder.path, 'ledger') });
  await makeAccounts(ledger, 2);
});

afterEach(async () => {
  await ledger.close();
  await folder.remove();
});

describe('the memory of a ledger between two checkpoints', () => {
  it('[L8] is bounded while blocks come, and while the log is replayed, and no block is missing', async () => {
    const before = bytesHeld();
    for (let n = 0; n < TRANSACTIONS; n += 1) {
      const result = await ledger.transact(CALLER, `k${n}`, BIG);
      if (!result.ok) throw new Error(result.message);
      if (n % 10 === 0) expect(bytesHeld() - before).toBeLessThan(ALLOWED);
    }
    expect(ledger.counters.checkpoints).toBe(0);
    const { header } = ledger.getTip();
    let length = 0;
    for (let height = 1; height <= header.height; height += 1) {
      length += (ledger.getBlock(height)?.texts ?? ['missing']).join('').length;
    }
    expect(length).toBeGreaterThan(2 * ALLOWED);

    // As after a crash: another ledger that finds the log, and rebuilds everything.
    const copy = join(folder.path, 'copy');
    await cp(join(folder.path, 'ledger', 'log'), join(copy, 'log'), {
      recursive: true,
      filter: (path) => !path.includes('lock'),
    });
    const atRest = bytesHeld();
    const rebuilt = await openLedger({ directory: copy });
    expect(rebuilt.opening.replayedEntries).toBe(header.height);
    expect(bytesHeld() - atRest).toBeLessThan(ALLOWED);
    expect(rebuilt.getBlock(header.height)?.header).toEqual(header);
    expect(await rebuilt.integrity()).toMatchObject({ ok: true, chain: { first: 1 } });
    await rebuilt.close();
  }, 60_000);

  it('[L9] does not depend on a wrong count of the history: blocks saved before their state count once', async () => {
    for (let n = 0; n < 30; n += 1) await ledger.transact(CALLER, `k${n}`, BIG);
    await ledger.checkpoint();
    for (let n = 30; n < 60; n += 1) await ledger.transact(CALLER, `k${n}`, BIG);
    const last = ledger.getTip().header.height;
    await ledger.close();
    const home = await LmdbHome.open(join(folder.path, 'ledger', 'state'));
    let stored = 0;
    for (let height = 1; height <= last; height += 1) stored += home.block(height)?.length ?? 0;
    expect(home.meta()?.historyBytes).toBe(stored);
    await home.close();
  });
});
