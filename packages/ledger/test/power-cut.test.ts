import fc from 'fast-check';
import { PowerCutDisk } from 'onceward/testing';
import { describe, expect, it } from 'vitest';
import { MemoryHome } from '../src/state/memory-home.ts';
import {
  CALLER,
  makeAccounts,
  openTestLedger,
  type TestLedger,
  testClock,
  transferBody,
} from './manual-ledger.ts';

const DIRECTORY = '/ledger';
const IN_FLIGHT = 8;

interface Life {
  readonly disk: PowerCutDisk;
  readonly home: MemoryHome;
  readonly accounts: readonly [string, string];
}

async function openOn(disk: PowerCutDisk, home: MemoryHome): Promise<TestLedger> {
  return openTestLedger({ directory: DIRECTORY, home, world: testClock(), fileSystem: disk });
}

/** Pays until the power fails, and returns the keys that were acknowledged and those that were sent. */
async function payUntilCut(life: Life, ledger: TestLedger, name: string) {
  const acknowledged: string[] = [];
  const sent: string[] = [];
  const [from, to] = life.accounts;
  const worker = async (id: number) => {
    for (let n = 0; n < 40 && !life.disk.isCut; n += 1) {
      const key = `${name}-${id}-${n}`;
      sent.push(key);
      try {
        const result = await ledger.transact(CALLER, key, transferBody({ from, to, amount: 1 }));
        if (result.ok) acknowledged.push(key);
        if (n === 5 && id === 0) await ledger.checkpoint();
      } catch {
        return;
      }
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, (_, id) => worker(id)));
  await ledger.close().catch(() => {});
  return { acknowledged, sent };
}

describe('a cut of power at any file operation', () => {
  it('[L8] loses nothing acknowledged, doubles nothing, and leaves sums and chain sound', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 60 }), fc.nat(), async (cutAt, seed) => {
        const home = new MemoryHome();
        const whole = new PowerCutDisk();
        const first = await openOn(whole, home);
        const accounts = (await makeAccounts(first, 2)) as [string, string];
        await first.close();
        const disk = whole.restart({ cutAt, seed });
        let acknowledged: string[] = [];
        let sent: string[] = [];
        try {
          const ledger = await openOn(disk, home);
          ({ acknowledged, sent } = await payUntilCut({ disk, home, accounts }, ledger, 'k'));
        } catch {
          // The power failed before the ledger was open.
        }
        const again = await openOn(disk.restart({ seed }), home);
        const kept = sent.filter((key) => again.history.idempotency(CALLER.credential, key));
        expect(acknowledged.filter((key) => !kept.includes(key))).toEqual([]);
        expect(again.reads.account(accounts[1])?.balance).toBe(BigInt(kept.length));
        expect(await again.integrity()).toMatchObject({ ok: true });
        await again.close();
      }),
      { numRuns: 40 },
    );
  }, 120_000);
});
