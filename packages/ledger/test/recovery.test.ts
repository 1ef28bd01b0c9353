import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LmdbHome } from '../src/home/lmdb-home.ts';
import { EmbeddedLog } from '../src/log/embedded-log.ts';
import { type LedgerOptions, openLedger } from '../src/open-ledger.ts';
import {
  CALLER,
  makeAccounts,
  makeFolder,
  type TestClock,
  type TestLedger,
  testClock,
  text,
  transferBody,
  uuid,
} from './manual-ledger.ts';

const HOUR = 3_600_000;

let folder: Awaited<ReturnType<typeof makeFolder>>;
let world: TestClock;
let ledger: TestLedger;

beforeEach(async () => {
  folder = await makeFolder();
  world = testClock();
  ledger = await openAgain();
});

afterEach(async () => {
  await ledger.close();
  await folder.remove();
});

function openAgain(options: LedgerOptions = {}): Promise<TestLedger> {
  return openLedger({ directory: folder.path, world, ...options });
}

async function reopen(options: LedgerOptions = {}): Promise<void> {
  await ledger.close();
  ledger = await openAgain(options);
}

async function closed<T extends { close(): Promise<void> }>(log: T): Promise<T> {
  await log.close();
  return log;
}

async function payAtOnce(count: number, name: string): Promise<void> {
  const body = transferBody({ from: 'acct_0', to: 'acct_1', amount: 1 });
  const paid = Array.from({ length: count }, (_, n) =>
    ledger.transact(CALLER, `${name}-${n}`, body),
  );
  for (const result of await Promise.all(paid)) if (!result.ok) throw new Error(result.message);
}

async function pay(count: number, name: string): Promise<void> {
  const body = transferBody({ from: 'acct_0', to: 'acct_1', amount: 1 });
  for (let n = 0; n < count; n += 1) {
    const result = await ledger.transact(CALLER, `${name}-${n}`, body);
    if (!result.ok) throw new Error(result.message);
  }
}

describe('a ledger on disk', () => {
  it('[L8] is the same after a clean restart, with nothing to replay', async () => {
    await makeAccounts(ledger, 300);
    await pay(20, 'a');
    const organization = await ledger.createOrganization(CALLER, { name: 'acme' });
    if (!organization.ok) throw new Error(organization.message);
    const scope = { organization: organization.id };
    const operations = [{ setEntity: { key: 'a', value: text('1') } }];
    await ledger.write(CALLER, { ...scope, clientId: 'c', idempotencyKey: uuid(1), operations });
    const tip = ledger.getTip();
    await reopen();
    expect(ledger.opening).toMatchObject({ replayedEntries: 0, rebuiltBecause: null, term: 2 });
    expect(ledger.getTip().header).toMatchObject({ previous: tip.hash, state: tip.header.state });
    expect(ledger.reads.account('acct_1')?.balance).toBe(20n);
    expect(ledger.reads.entity(scope, 'a')).toMatchObject({ version: 1 });
    expect(ledger.reads.clientState(scope, 'c')).toBe(1n);
    const body = transferBody({ from: 'acct_0', to: 'acct_1', amount: 1 });
    expect(await ledger.transact(CALLER, 'a-3', body)).toMatchObject({ layer: 'database' });
    expect(await ledger.integrity()).toMatchObject({ ok: true });
  });

  it('keeps other openers out while it lives', async () => {
    await expect(openAgain()).rejects.toMatchObject({ code: 'ONCE_STORE_LOCKED' });
    await pay(0, 'a');
    expect(await ledger.createAccount(CALLER, { category: 'A', asset: 'B' })).toMatchObject({
      ok: true,
    });
  });

  it('rebuilds a damaged state from its log', async () => {
    await makeAccounts(ledger, 2);
    await pay(10, 'a');
    await ledger.close();
    await damageAccounts();
    ledger = await openAgain();
    expect(ledger.opening.rebuiltBecause).toMatch(/does not match the state root/);
    expect(ledger.reads.account('acct_1')?.balance).toBe(10n);
    expect(await ledger.integrity()).toMatchObject({ ok: true });
  });

  it('rebuilds a damaged state from its snapshot once the log before it is removed', async () => {
    await ledger.changeSettings(CALLER, { idempotencyTtlMs: 1 });
    await reopen({ checkpointBytes: 1, snapshotBytes: 1 });
    await makeAccounts(ledger, 2);
    await pay(10, 'a');
    await ledger.checkpoint();
    await pay(5, 'b');
    await reopen({ snapshotBytes: 2 ** 40 });
    await pay(5, 'c');
    await ledger.close();
    await damageAccounts();
    ledger = await openAgain();
    expect(ledger.opening.rebuiltBecause).toMatch(/does not match the state root/);
    expect(ledger.opening.replayedEntries).toBeLessThan(15);
    expect(ledger.reads.account('acct_1')?.balance).toBe(20n);
    expect(await ledger.integrity()).toMatchObject({ ok: true });
  });

  it('rebuilds a missing state from its snapshot once the log before it is removed', async () => {
    const log = () =>
      EmbeddedLog.open({ directory: join(folder.path, 'log'), segmentBytes: 32_768 });
    await ledger.close();
    await rm(folder.path, { recursive: true });
    ledger = await openAgain({ checkpointBytes: 1, snapshotBytes: 1, log: await log() });
    await makeAccounts(ledger, 2);
    await pay(200, 'a');
    await ledger.close();
    const { firstIndex } = await closed(await log());
    expect(firstIndex).toBeGreaterThan(1);
    await rm(join(folder.path, 'state', 'state'), { recursive: true });
    // As if a crash had come while an older copy was being removed, and while a new one was being made.
    await mkdir(join(folder.path, 'state', 'snapshot-1'));
    await mkdir(join(folder.path, 'state', 'state.new'));
    ledger = await openAgain();
    expect(ledger.opening.rebuiltBecause).toMatch(/the log begins at \d+, the state ends at 0/);
    expect(ledger.reads.account('acct_1')?.balance).toBe(200n);
    expect(await ledger.integrity()).toMatchObject({ ok: true });
    expect(await readdir(join(folder.path, 'state'))).not.toContain('snapshot-1');
  });

  it('[S9] drops old blocks as fast as they come, though each holds a single transaction', async () => {
    const options = { historyBytes: 50_000, batchSize: 1, idempotencyTtlMs: HOUR };
    await reopen(options);
    await makeAccounts(ledger, 2);
    await payAtOnce(6_000, 'a');
    await ledger.checkpoint();
    world.advance(HOUR);
    await payAtOnce(3_500, 'b');
    await ledger.checkpoint();
    // All but those that were not answered when the last entries were written.
    expect(ledger.firstBlock).toBeGreaterThan(5_990);
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  it('[S9] drops old blocks, and reads and verifies what it keeps', async () => {
    await reopen({ historyBytes: 5_000, idempotencyTtlMs: HOUR });
    await makeAccounts(ledger, 2);
    await pay(30, 'a');
    await ledger.checkpoint();
    expect(ledger.firstBlock).toBe(1);
    world.advance(HOUR);
    await pay(30, 'b');
    await ledger.checkpoint();
    expect(ledger.firstBlock).toBeGreaterThan(30);
    expect(await ledger.integrity()).toMatchObject({
      ok: true,
      chain: { first: ledger.firstBlock },
    });
    const page = ledger.history.accountEntries('acct_1', null, 500);
    expect(page).toMatchObject({ ok: true, value: { isTrimmed: true } });
    expect(ledger.history.transaction('tx_3_0')).toBeUndefined();
    await reopen({ historyBytes: 5_000 });
    expect(await ledger.verify()).toMatchObject({ ok: true });
    const body = transferBody({ from: 'acct_0', to: 'acct_1', amount: 1 });
    expect(await ledger.transact(CALLER, 'b-3', body)).toMatchObject({ layer: 'database' });
  });

  it('does not open where it cannot live, or with settings that make no sense', async () => {
    await expect(openLedger({})).rejects.toMatchObject({ code: 'ONCE_INVALID_CONFIG' });
    await expect(openLedger({ directory: '/dev/null/x' })).rejects.toMatchObject({
      code: 'ONCE_INVALID_CONFIG',
    });
    for (const setting of ['batchSize', 'evictionInterval', 'idempotencyTtlMs', 'historyBytes']) {
      for (const value of [0, -1, 0.5, Number.NaN]) {
        const opening = openLedger({ directory: folder.path, [setting]: value });
        await expect(opening).rejects.toThrow(setting);
      }
    }
  });

  it('cuts a batch before it is too long for the log', async () => {
    const created = await ledger.createOrganization(CALLER, { name: 'acme' });
    if (!created.ok) throw new Error(created.message);
    const value = new Uint8Array(60_000);
    const operations = Array.from({ length: 10 }, (_, n) => ({
      setEntity: { key: `${n}`, value },
    }));
    const writes = Array.from({ length: 24 }, (_, n) =>
      ledger.write(CALLER, {
        organization: created.id,
        clientId: `client-${n}`,
        idempotencyKey: uuid(n),
        operations,
      }),
    );
    const heights = (await Promise.all(writes)).map((result) => result.ok && result.blockHeight);
    expect(new Set(heights).size).toBeGreaterThan(1);
    expect(heights).not.toContain(false);
  });

  it('refuses a request after it has been closed', async () => {
    await makeAccounts(ledger, 2);
    await ledger.close();
    await expect(pay(1, 'late')).rejects.toMatchObject({
      code: 'ONCE_STORE_FAILED',
      applied: 'no',
    });
  });
});

/** Changes a balance behind the ledger's back. */
async function damageAccounts(): Promise<void> {
  const home = await LmdbHome.open(join(folder.path, 'state'));
  const meta = home.meta();
  const [page] = [...home.accountPages()].map(({ balances }) => balances && Buffer.from(balances));
  if (meta === undefined || page === undefined) throw new Error('nothing was saved');
  page[7] = (page[7] as number) ^ 1;
  await home.save({
    meta,
    accountPages: new Map(),
    balancePages: new Map([[0, page]]),
    rowPages: new Map(),
    windows: { keys: { runs: [], since: 0 }, receipts: { runs: [], since: 0 } },
    blocks: new Map(),
    firstBlock: 0,
  });
  await home.close();
}
