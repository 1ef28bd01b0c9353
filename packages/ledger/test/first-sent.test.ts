import { afterEach, beforeEach, expect, it } from 'vitest';
import { MemoryHome } from '../src/state/memory-home.ts';
import {
  CALLER,
  makeAccounts,
  makeFolder,
  openTestLedger,
  type TestClock,
  type TestLedger,
  testClock,
  transferBody,
} from './manual-ledger.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const BODY = transferBody({ from: 'acct_0', to: 'acct_1', amount: 1 });
const EXPIRED = { ok: false, code: 'KEY_EXPIRED' };

let folder: Awaited<ReturnType<typeof makeFolder>>;
let world: TestClock;
let home: MemoryHome;
let ledger: TestLedger;

const reopen = async (next = home) => {
  await ledger.close();
  home = next;
  ledger = await openTestLedger({ directory: folder.path, home, world });
};

beforeEach(async () => {
  folder = await makeFolder();
  [world, home] = [testClock(), new MemoryHome()];
  ledger = await openTestLedger(
    { directory: folder.path, home, world },
    { idempotencyTtlMs: HOUR, clientTtlMs: HOUR },
  );
  await makeAccounts(ledger, 2);
});

afterEach(async () => {
  await ledger.close();
  await folder.remove();
});

const balance = () => ledger.reads.account('acct_1')?.balance;

it('[H20] a transaction that was held up until its key was forgotten is not posted again', async () => {
  const sentAt = world.now();
  expect(await ledger.transact(CALLER, 'a', BODY, sentAt)).toMatchObject({ ok: true });
  const posted = balance();
  expect(posted).toBeDefined();
  // Admitted within its window, and written to the log after it.
  world.advance(HOUR - 10 * MINUTE);
  const late = ledger.transact(CALLER, 'a', BODY, sentAt);
  world.advance(20 * MINUTE);
  expect(await late).toMatchObject(EXPIRED);
  expect(balance()).toBe(posted);
  const { header } = ledger.getTip();
  await reopen(new MemoryHome());
  expect(ledger.getBlock(header.height)?.header).toEqual(header);
  expect(balance()).toBe(posted);
});

it('[H20] an account whose creation was held up until its key was forgotten is not opened again', async () => {
  const account = { category: 'WALLET', asset: 'USD' };
  const sentAt = world.now();
  const first = await ledger.createAccount(CALLER, account, 'k', sentAt);
  world.advance(HOUR - 10 * MINUTE);
  expect(await ledger.createAccount(CALLER, account, 'k', sentAt)).toEqual(first);
  const late = ledger.createAccount(CALLER, account, 'other', sentAt);
  world.advance(20 * MINUTE);
  expect(await late).toMatchObject(EXPIRED);
});

it('[L12] a longer time to live does not bring keys back: what a shorter one forgot is not posted again', async () => {
  const sentAt = world.now();
  await ledger.transact(CALLER, 'a', BODY, sentAt);
  world.advance(90 * MINUTE);
  await ledger.transact(CALLER, 'b', BODY, world.now());
  await ledger.changeSettings(CALLER, { idempotencyTtlMs: 24 * HOUR });
  const posted = balance();
  expect(await ledger.transact(CALLER, 'a', BODY, sentAt)).toMatchObject(EXPIRED);
  expect(await ledger.transact(CALLER, 'b', BODY, sentAt)).toMatchObject({ layer: 'database' });
  // Remembered when the state is opened, and when it is rebuilt from the log.
  for (const next of [home, new MemoryHome()]) {
    await reopen(next);
    expect(await ledger.transact(CALLER, 'a', BODY, sentAt)).toMatchObject(EXPIRED);
  }
  expect(balance()).toBe(posted);
  world.advance(6 * HOUR);
  const fresh = await ledger.transact(CALLER, 'c', BODY, world.now() - 5 * HOUR);
  expect(fresh).toMatchObject({ ok: true });
});
