import {
  type LedgerHeader,
  verifyAccount,
  verifyChain,
  verifyRow,
  verifyTransaction,
} from 'onceward/proof';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryHome } from '../src/state/memory-home.ts';
import {
  CALLER,
  makeAccounts,
  makeFolder,
  openTestLedger,
  type TestHomes,
  type TestLedger,
  testClock,
  text,
  transferBody,
  uuid,
} from './manual-ledger.ts';

let folder: Awaited<ReturnType<typeof makeFolder>>;
let homes: TestHomes;
let ledger: TestLedger;

beforeEach(async () => {
  folder = await makeFolder();
  homes = { directory: folder.path, home: new MemoryHome(), world: testClock() };
  ledger = await openTestLedger(homes);
});

afterEach(async () => {
  await ledger.close();
  await folder.remove();
});

function headers(): LedgerHeader[] {
  const list: LedgerHeader[] = [];
  for (let height = ledger.firstBlock; height <= ledger.getTip().header.height; height += 1) {
    list.push(ledger.getBlock(height)?.header as LedgerHeader);
  }
  return list;
}

describe('the independent verifier', () => {
  it('[S9] accepts every transaction of a full block, and no altered one', async () => {
    const [from, to] = (await makeAccounts(ledger, 2)) as [string, string];
    const body = transferBody({ from, to, amount: 1 });
    const sent = Array.from({ length: 300 }, (_, n) => ledger.transact(CALLER, `k${n}`, body));
    const results = await Promise.all(sent);
    for (const [at, result] of results.entries()) {
      if (!result.ok) throw new Error(result.message);
      if (at % 9 !== 0) continue;
      const found = ledger.history.proof(result.transactionId);
      if (found === undefined) throw new Error('no proof');
      const { block, transaction, proof } = found;
      expect(verifyTransaction(block.header, transaction, proof)).toMatchObject({ ok: true });
      const altered = transaction.replace('"amount":"1"', '"amount":"2"');
      expect(verifyTransaction(block.header, altered, proof)).toMatchObject({ ok: false });
      const moved = { ...proof, position: (proof.position + 1) % proof.count };
      expect(verifyTransaction(block.header, transaction, moved)).toMatchObject({ ok: false });
    }
  });

  it('[S9] reads accounts from their proofs', async () => {
    const accounts = await makeAccounts(ledger, 150);
    const [from, to] = [accounts[120], accounts[149]] as [string, string];
    const amount = 2n ** 200n;
    await ledger.transact(CALLER, 'k1', transferBody({ from, to, amount }));
    for (const id of accounts.slice(-40)) {
      const read = ledger.reads.verifiedAccount(id);
      if (read === undefined) throw new Error('no account');
      const { header, number, parts, proof, account } = read;
      const { balance, version, asset, category } = account;
      const expected = { number, balance, version, asset, category };
      expect(verifyAccount(header, number, parts, proof)).toEqual({ ok: true, value: expected });
      expect(verifyAccount(header, number + 1, parts, proof)).toMatchObject({
        ok: number % 4 !== 3 && number !== 149,
      });
      const leaf = proof.leaf.replace(/^../, '7f');
      expect(verifyAccount(header, number, parts, { ...proof, leaf })).toMatchObject({ ok: false });
    }
    expect(ledger.reads.verifiedAccount(from)?.account.balance).toBe(-amount);
  });

  it('[S9] finds rows that are there, and that others are not', async () => {
    const created = await ledger.createOrganization(CALLER, { name: 'acme' });
    if (!created.ok) throw new Error(created.message);
    const scope = { organization: created.id };
    for (let n = 0; n < 200; n += 1) {
      await ledger.write(CALLER, {
        ...scope,
        clientId: 'app',
        idempotencyKey: uuid(n),
        operations: [{ setEntity: { key: `key "${n}"\n`, value: text(`value ${n}`) } }],
      });
    }
    for (let n = 0; n < 220; n += 5) {
      const read = ledger.reads.verifiedEntity(scope, `key "${n}"\n`);
      const { row, header, parts, proof } = read;
      const value = Buffer.from(`value ${n}`).toString('base64');
      const expected = n < 200 ? { value, version: 1, expires_at: null } : undefined;
      expect(verifyRow(header, row, parts, proof)).toEqual({ ok: true, value: expected });
      const bucket = proof.bucket === '[]' ? '[["x",{}]]' : '[]';
      expect(verifyRow(header, row, parts, { ...proof, bucket })).toMatchObject({ ok: false });
      const fewer = { ...proof, bucketCount: proof.bucketCount - 1 };
      expect(verifyRow(header, row, parts, fewer)).toMatchObject({ ok: false });
    }
  });

  it('[S9] follows the chain of headers and finds a forged one', async () => {
    const [from, to] = (await makeAccounts(ledger, 2)) as [string, string];
    for (let n = 0; n < 20; n += 1) {
      await ledger.transact(CALLER, `k${n}`, transferBody({ from, to, amount: 1 }));
    }
    const chain = headers();
    expect(verifyChain(chain)).toEqual({ ok: true, value: ledger.getTip().hash });
    const forged = chain.with(7, { ...(chain[7] as LedgerHeader), at: 0 });
    expect(verifyChain(forged)).toMatchObject({ ok: false });
    expect(verifyChain(chain.toSpliced(7, 1))).toMatchObject({ ok: false });
  });
});

describe('the audit', () => {
  it('[S9] walks the whole chain and reports its progress', async () => {
    const [from, to] = (await makeAccounts(ledger, 2)) as [string, string];
    for (let n = 0; n < 30; n += 1) {
      await ledger.transact(CALLER, `k${n}`, transferBody({ from, to, amount: 1 }));
    }
    const seen: number[] = [];
    const report = await ledger.verify((done) => seen.push(done));
    expect(report).toMatchObject({ ok: true, first: 1, transactions: 32 });
    expect(seen.at(-1)).toBe(ledger.getTip().header.height);
  });

  it('[S9] finds a block whose transaction was altered on disk', async () => {
    const [from, to] = (await makeAccounts(ledger, 2)) as [string, string];
    await ledger.transact(CALLER, 'k1', transferBody({ from, to, amount: 1 }));
    await ledger.close();
    const { home } = homes;
    const height = home.meta()?.header.height as number;
    const altered = home
      .block(height)
      ?.toString()
      .replace('"amount":"1"', '"amount":"9"') as string;
    const meta = home.meta();
    if (meta === undefined) throw new Error('nothing was saved');
    const pages = { accountPages: new Map(), balancePages: new Map(), rowPages: new Map() };
    const none = { runs: [], since: 0 };
    const nothing = { ...pages, windows: { keys: none, receipts: none } };
    const blocks = new Map([[height, Buffer.from(altered)]]);
    await home.save({ meta, ...nothing, blocks, firstBlock: 1 });
    ledger = await openTestLedger(homes);
    expect(await ledger.verify()).toMatchObject({
      ok: false,
      problem: `block ${height} does not hold the transactions that its header promises`,
    });
  });

  it('[S9] watchers see every block in order, those to come included', async () => {
    const [from, to] = (await makeAccounts(ledger, 2)) as [string, string];
    const stop = new AbortController();
    const heights: number[] = [];
    const watching = (async () => {
      for await (const block of ledger.watchBlocks(1, stop.signal)) {
        heights.push(block.header.height);
        if (block.texts.some((line) => line.includes('"key":"last"'))) stop.abort();
      }
    })();
    for (const key of ['k1', 'k2', 'last']) {
      await ledger.transact(CALLER, key, transferBody({ from, to, amount: 1 }));
    }
    await watching;
    expect(heights).toEqual(heights.map((_, at) => at + 1));
    expect(heights.length).toBe(ledger.getTip().header.height);
  });
});
