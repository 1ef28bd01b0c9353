import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { LedgerOptions } from '../src/open-ledger.ts';
import { MemoryHome } from '../src/state/memory-home.ts';
import {
  CALLER,
  makeAccounts,
  makeFolder,
  openTestLedger,
  type TestClock,
  type TestLedger,
  testClock,
  text,
  transferBody,
  uuid,
} from './manual-ledger.ts';

const HOUR = 3_600_000;
const BODY = transferBody({ from: 'acct_0', to: 'acct_1', amount: 1 });
const LOST = 10;

let folder: Awaited<ReturnType<typeof makeFolder>>;
let homes: { directory: string; home: MemoryHome; world: TestClock };
let ledger: TestLedger;

async function reopen(options: LedgerOptions = {}): Promise<void> {
  await ledger.close();
  ledger = await openTestLedger(homes, { snapshotBytes: 1, ...options });
}

/** Every life begins a segment of the log, and those before the snapshot go: the log cannot give the block again. */
async function misplace(height: number): Promise<void> {
  await reopen();
  await reopen();
  await ledger.close();
  homes.home.misplaceBlock(height);
  ledger = await openTestLedger(homes, { snapshotBytes: 1 });
}

beforeEach(async () => {
  folder = await makeFolder();
  homes = { directory: folder.path, home: new MemoryHome(), world: testClock() };
  ledger = await openTestLedger(homes, { snapshotBytes: 1 });
  await makeAccounts(ledger, 2);
  for (let n = 0; n < 20; n += 1) await ledger.transact(CALLER, `key-${n}`, BODY);
  await misplace(LOST);
});

afterEach(async () => {
  await ledger.close();
  await folder.remove();
});

const MISSING = new RegExp(`Block ${LOST} of the ledger's history is missing`);

describe('a block that the history has lost', () => {
  it('[L9] is reported as missing where it is read, and never taken for one that there is not', async () => {
    expect(() => ledger.getBlock(LOST)).toThrow(MISSING);
    await expect(ledger.getHeaders(LOST - 1, 5)).rejects.toThrow(MISSING);
    expect(() => ledger.history.transaction(`tx_${LOST}_0`)).toThrow(MISSING);
    expect(() => ledger.history.proof(`tx_${LOST}_0`)).toThrow(MISSING);
    expect(ledger.getBlock(LOST + 1)?.header.height).toBe(LOST + 1);
    const { chain } = await ledger.integrity();
    expect(chain).toMatchObject({ ok: false, problem: expect.stringMatching(`^block ${LOST} `) });
    const seen: number[] = [];
    const watching = (async () => {
      for await (const { header } of ledger.watchBlocks(LOST - 1)) seen.push(header.height);
    })();
    await expect(watching).rejects.toThrow(MISSING);
    expect(seen).toEqual([LOST - 1]);
  });

  it('[L9] costs no key and no payment, and goes when its neighbours are trimmed', async () => {
    for (let n = 0; n < 20; n += 1) {
      expect(await ledger.transact(CALLER, `key-${n}`, BODY)).toMatchObject({ layer: 'database' });
    }
    await reopen({ historyBytes: 1 });
    homes.world.advance(2 * HOUR);
    expect(await ledger.transact(CALLER, 'later', BODY)).toMatchObject({ ok: true });
    for (let n = 0; n < 10; n += 1) await ledger.transact(CALLER, `later-${n}`, BODY);
    await ledger.checkpoint();
    expect(ledger.firstBlock).toBeGreaterThan(LOST);
    expect(await ledger.integrity()).toMatchObject({ ok: true });
  });

  it('[S4] does not make a repeat of its write fail', async () => {
    const created = await ledger.createOrganization(CALLER, { name: 'acme' });
    if (!created.ok) throw new Error(created.message);
    const write = () =>
      ledger.write(
        CALLER,
        {
          organization: created.id,
          clientId: 'app',
          idempotencyKey: uuid(1),
          operations: [{ setEntity: { key: 'a', value: text('x') } }],
        },
        { includeTxProof: true },
      );
    const first = await write();
    if (!first.ok) throw new Error(first.message);
    await misplace(first.blockHeight);
    const again = await write();
    expect(again).toMatchObject({ code: 'ALREADY_COMMITTED', committedTxId: first.txId });
    expect(again).not.toHaveProperty('proof');
  });
});
