import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryHome } from '../src/state/memory-home.ts';
import {
  CALLER,
  makeAccounts,
  makeFolder,
  OTHER,
  openTestLedger,
  type TestHomes,
  type TestLedger,
  testClock,
  transferBody,
} from './manual-ledger.ts';

const HOUR = 3_600_000;

let folder: Awaited<ReturnType<typeof makeFolder>>;
let homes: TestHomes;
let ledger: TestLedger;
let cash: string;
let shop: string;

beforeEach(async () => {
  folder = await makeFolder();
  homes = { directory: folder.path, home: new MemoryHome(), world: testClock() };
  ledger = await openTestLedger(homes);
  [cash, shop] = (await makeAccounts(ledger, 2)) as [string, string];
});

afterEach(async () => {
  await ledger.close();
  await folder.remove();
});

function balance(id: string): bigint | undefined {
  return ledger.reads.account(id)?.balance;
}

function pay(key: string, amount: bigint | number | string, policy = 'NONE') {
  return ledger.transact(CALLER, key, transferBody({ from: cash, to: shop, amount, policy }));
}

describe('a transaction', () => {
  it('[L1] moves an amount from the debited to the credited account', async () => {
    const result = await pay('k1', 100);
    expect(result).toMatchObject({ ok: true, journalEntries: [{ sequence: 1, amount: '100' }] });
    expect([balance(cash), balance(shop)]).toEqual([-100n, 100n]);
    expect(ledger.reads.account(cash)).toMatchObject({ category: 'WALLET', version: 1 });
  });

  it('[L1] carries amounts far beyond 2^53 without loss', async () => {
    const amount = 123_456_789_012_345_678_901_234_567_890_123_456_789n;
    await pay('k1', amount);
    await pay('k2', String(amount));
    expect(balance(shop)).toBe(2n * amount);
    expect(balance(cash)).toBe(-2n * amount);
  });

  it('[L1] whose sides have amounts or assets of their own is refused: entries always balance', async () => {
    const [entry] = transferBody({ from: cash, to: shop, amount: 100 }).journal_entries;
    for (const own of [{ amount: 90 }, { amount: 100 }, { asset: 'EUR' }]) {
      const debit = { account_id: cash, ...own };
      const result = await ledger.transact(CALLER, 'k1', {
        journal_entries: [{ ...entry, debit }],
      });
      expect(result).toMatchObject({ ok: false, code: 'INVALID_FIELD' });
    }
    expect([balance(cash), balance(shop)]).toEqual([0n, 0n]);
    expect(await pay('k1', 100)).toMatchObject({ ok: true });
  });

  it('[L1] takes the largest amount there is, and refuses the next', async () => {
    const most = 2n ** 250n - 1n;
    expect(await pay('k1', most)).toMatchObject({ ok: true });
    expect(await pay('k2', most + 1n)).toMatchObject({ ok: false, code: 'INVALID_FIELD' });
    expect(balance(shop)).toBe(most);
  });

  it('[L1] that would take a balance out of its range is rejected', async () => {
    for (let n = 0; n < 31; n += 1) await pay(`k${n}`, 2n ** 250n - 1n);
    const results = [await pay('last', 2n ** 250n - 1n), await pay('over', 2n ** 250n - 1n)];
    expect(results[1]).toMatchObject({ code: 'BALANCE_OUT_OF_RANGE' });
    expect((balance(shop) ?? 0n) + (balance(cash) ?? 0n)).toBe(0n);
  });

  it.each([
    ['no entries', { journal_entries: [] }, 'INVALID_FIELD'],
    ['no body', null, 'INVALID_FIELD'],
    ['an actor of its own', { ...transferBody(), actor: 'user:1' }, 'ACTOR_NOT_ALLOWED'],
  ])('[L1] with %s is refused', async (_, body, code) => {
    expect(await ledger.transact(CALLER, 'k1', body)).toMatchObject({ ok: false, code });
    expect(ledger.history.idempotency(CALLER.credential, 'k1')).toBeUndefined();
  });

  it.each([
    ['0', 0],
    ['a negative amount', -5],
    ['a fraction', 1.5],
    ['a number that has lost digits', 2 ** 53],
    ['10,000 digits', '9'.repeat(10_000)],
    ['letters', '12a'],
    ['a leading zero', '012'],
    ['nothing', undefined as unknown as number],
  ])('[L1] over %s is refused and stores nothing', async (_, amount) => {
    expect(await pay('k1', amount)).toMatchObject({ ok: false, code: 'INVALID_FIELD' });
    expect(await pay('k1', 1)).toMatchObject({ ok: true });
  });

  it('[L1] whose entries skip a number is refused', async () => {
    const body = transferBody({ from: cash, to: shop, amount: 1 });
    const entries = [{ ...body.journal_entries[0], sequence: 2 }];
    const result = await ledger.transact(CALLER, 'k1', { journal_entries: entries });
    expect(result).toMatchObject({ code: 'INVALID_SEQUENCE' });
  });

  it('[L1] with a member that the ledger would have to drop is refused, and names it', async () => {
    const body = transferBody({ from: cash, to: shop, amount: 1 });
    const [entry] = body.journal_entries;
    for (const wrong of [
      { ...body, memo: 'x' },
      { journal_entries: [{ ...entry, memo: 'x' }] },
      { journal_entries: [{ ...entry, debit: { ...entry?.debit, memo: 'x' } }] },
    ]) {
      expect(await ledger.transact(CALLER, 'k1', wrong)).toMatchObject({
        code: 'INVALID_FIELD',
        message: expect.stringContaining('"memo"'),
      });
    }
    const account = { category: 'WALLET', asset: 'USD', memo: 'x' };
    expect(await ledger.createAccount(CALLER, account)).toMatchObject({ code: 'INVALID_FIELD' });
  });

  it('[L1] with an unknown account, asset or policy is refused', async () => {
    const [euros] = await makeAccounts(ledger, 1, 'EUR');
    const to = (id: string, more = {}) => transferBody({ from: cash, to: id, amount: 1, ...more });
    const refused = async (body: unknown) => {
      const result = await ledger.transact(CALLER, 'k1', body);
      return result.ok ? 'ok' : result.code;
    };
    expect(await refused(to('acct_999'))).toBe('ACCOUNT_NOT_FOUND');
    expect(await refused(to('nonsense'))).toBe('ACCOUNT_NOT_FOUND');
    expect(await refused(to(euros as string))).toBe('INVALID_FIELD');
    expect(await refused(to(shop, { asset: 'GBP' }))).toBe('INVALID_FIELD');
    expect(await refused(to(shop, { policy: 'SOMETIMES' }))).toBe('INVALID_BALANCE_POLICY');
    expect(await refused(to(cash))).toBe('INVALID_FIELD');
  });

  it('[L1] needs a key of 1 to 100 characters', async () => {
    const code = async (key: string | undefined) => {
      const result = await ledger.transact(CALLER, key, transferBody());
      return result.ok ? 'ok' : result.code;
    };
    expect(await code(undefined)).toBe('IDEMPOTENCY_KEY_REQUIRED');
    expect(await code('')).toBe('IDEMPOTENCY_KEY_REQUIRED');
    expect(await code('x'.repeat(101))).toBe('IDEMPOTENCY_KEY_INVALID');
    expect(await pay('x'.repeat(100), 1)).toMatchObject({ ok: true });
  });

  it('[L7] that breaks a balance policy changes nothing, and its key stays used as rejected', async () => {
    const result = await pay('k1', 5, 'ALWAYS_POSITIVE');
    expect(result).toMatchObject({ ok: false, code: 'INSUFFICIENT_FUNDS' });
    expect([balance(cash), balance(shop)]).toEqual([0n, 0n]);
    expect(ledger.reads.account(cash)?.version).toBe(0);
    expect(ledger.history.idempotency(CALLER.credential, 'k1')).toMatchObject({
      status: 'rejected',
      response: { ok: false, code: 'INSUFFICIENT_FUNDS' },
    });
    expect(await pay('k1', 5)).toMatchObject({ code: 'DUPLICATE_IDEMPOTENCY_KEY' });
  });

  it('[L1] may bring a balance to the very bound of its policy, and not beyond', async () => {
    const move = (
      key: string,
      from: string,
      to: string,
      amount: number,
      sides: [string, string],
    ) => {
      const [debit, credit] = sides;
      const [entry] = transferBody({ from, to, amount }).journal_entries;
      const bound = {
        ...entry,
        debit: { account_id: from, balance_policy: debit },
        credit: { account_id: to, balance_policy: credit },
      };
      return ledger.transact(CALLER, key, { journal_entries: [bound] });
    };
    const bounds: [string, string] = ['ALWAYS_NEGATIVE', 'ALWAYS_POSITIVE'];
    expect(await move('k1', cash, shop, 5, bounds)).toMatchObject({ ok: true });
    const back: [string, string] = ['ALWAYS_POSITIVE', 'ALWAYS_NEGATIVE'];
    expect(await move('k2', shop, cash, 6, back)).toMatchObject({ code: 'INSUFFICIENT_FUNDS' });
    expect(await move('k3', shop, cash, 6, ['NONE', back[1]])).toMatchObject({ ok: false });
    expect(await move('k4', shop, cash, 5, back)).toMatchObject({ ok: true });
    expect([balance(cash), balance(shop)]).toEqual([0n, 0n]);
  });

  it('[L7] is undone as a whole when its second entry breaks a policy', async () => {
    const body = transferBody(
      { from: cash, to: shop, amount: 10 },
      { from: shop, to: cash, amount: 11, policy: 'ALWAYS_POSITIVE' },
    );
    expect(await ledger.transact(CALLER, 'k1', body)).toMatchObject({ code: 'INSUFFICIENT_FUNDS' });
    expect([balance(cash), balance(shop)]).toEqual([0n, 0n]);
  });
});

describe('a duplicate', () => {
  it('[L2] of a transaction in flight is refused at once', async () => {
    const first = pay('k1', 100);
    expect(await pay('k1', 100)).toMatchObject({
      code: 'DUPLICATE_IDEMPOTENCY_KEY',
      layer: 'in_flight',
    });
    expect(await first).toMatchObject({ ok: true });
    expect(balance(shop)).toBe(100n);
    expect(ledger.counters.duplicates.in_flight).toBe(1);
  });

  it('[L2] of a committed one undoes its whole batch; the innocent may retry with the same key', async () => {
    await pay('k1', 100);
    const [repeat, innocent] = await Promise.all([pay('k1', 100), pay('k2', 7)]);
    expect(repeat).toMatchObject({ code: 'DUPLICATE_IDEMPOTENCY_KEY', layer: 'database' });
    expect(innocent).toMatchObject({ code: 'BATCH_ROLLED_BACK' });
    expect(balance(shop)).toBe(100n);
    expect(await pay('k2', 7)).toMatchObject({ ok: true });
    expect(balance(shop)).toBe(107n);
  });

  it('[L2] is dropped alone where the ledger is set so', async () => {
    await ledger.changeSettings(CALLER, { databaseConflict: 'reject_duplicate' });
    await pay('k1', 100);
    const [repeat, innocent] = await Promise.all([pay('k1', 100), pay('k2', 7)]);
    expect(repeat).toMatchObject({ code: 'DUPLICATE_IDEMPOTENCY_KEY', layer: 'database' });
    expect(innocent).toMatchObject({ ok: true });
    expect(balance(shop)).toBe(107n);
  });

  it('[L3] never gets the first answer; the record shows request and response', async () => {
    const first = await pay('k1', 100);
    expect(await pay('k1', 100)).toMatchObject({ ok: false });
    const record = ledger.history.idempotency(CALLER.credential, 'k1');
    expect(record).toMatchObject({ key: 'k1', createdAt: homes.world.now() });
    expect(JSON.parse(record?.requestText ?? '')).toMatchObject({
      journal_entries: [{ amount: 100, debit: { account_id: cash } }],
    });
    expect(record?.response).toEqual(first);
  });

  it('[L3] under another credential is not a duplicate, and its record is not shown', async () => {
    await pay('k1', 100);
    expect(ledger.history.idempotency(OTHER.credential, 'k1')).toBeUndefined();
    const body = transferBody({ from: cash, to: shop, amount: 1 });
    expect(await ledger.transact(OTHER, 'k1', body)).toMatchObject({ ok: true });
  });

  it('[L4] is forgotten when its window is over, not before', async () => {
    await pay('k1', 100);
    homes.world.advance(HOUR - 1);
    expect(await pay('k1', 100)).toMatchObject({ code: 'DUPLICATE_IDEMPOTENCY_KEY' });
    homes.world.advance(1);
    expect(ledger.history.idempotency(CALLER.credential, 'k1')).toBeUndefined();
    expect(await pay('k1', 100)).toMatchObject({ ok: true });
    expect(balance(shop)).toBe(200n);
  });

  it('[L4] is found again after a restart, from the saved state and from the log', async () => {
    await pay('k1', 100);
    await ledger.checkpoint();
    await pay('k2', 100);
    await ledger.close();
    ledger = await openTestLedger(homes);
    expect(await pay('k1', 100)).toMatchObject({ layer: 'database' });
    expect(await pay('k2', 100)).toMatchObject({ layer: 'database' });
  });
});

describe('what happened', () => {
  it('[L5] an account lists its entries, newest first, page by page', async () => {
    for (let n = 1; n <= 5; n += 1) await pay(`k${n}`, n);
    const first = ledger.history.accountEntries(shop, null, 3);
    if (!first.ok) throw new Error(first.message);
    expect(first.value.entries.map(({ amount, balanceAfter }) => [amount, balanceAfter])).toEqual([
      ['5', '15'],
      ['4', '10'],
      ['3', '6'],
    ]);
    const second = ledger.history.accountEntries(shop, first.value.cursor, 3);
    if (!second.ok) throw new Error(second.message);
    expect(second.value.entries.map(({ amount }) => amount)).toEqual(['2', '1']);
    expect(second.value.cursor).toBeNull();
    expect(second.value.entries[0]).toMatchObject({ direction: 'credit', counterpart: cash });
  });

  it("[L5] a cursor of another account's entries is refused", async () => {
    await pay('k1', 1);
    const [stranger] = (await makeAccounts(ledger, 1)) as [string];
    const page = ledger.history.accountEntries(shop, null, 1);
    expect(page.ok).toBe(true);
    for (const cursor of ['2.0.1', 'x', '-1.0.0', '1e9.0.0']) {
      const result = ledger.history.accountEntries(stranger, cursor, 1);
      expect(result).toMatchObject({ ok: false, code: 'INVALID_FIELD' });
    }
  });

  it('[L5] a transaction is found by its id', async () => {
    const result = await pay('k1', 100);
    if (!result.ok) throw new Error(result.message);
    expect(ledger.history.transaction(result.transactionId)).toMatchObject({
      transaction: { id: result.transactionId, status: 'committed', actor: 'client:shop' },
    });
    expect(ledger.history.transaction('tx_99_0')).toBeUndefined();
    expect(ledger.history.transaction('nonsense')).toBeUndefined();
  });

  it('[L5] after a restart the last batches show what was committed', async () => {
    await Promise.all([pay('k1', 100), pay('k2', 5, 'ALWAYS_POSITIVE')]);
    await ledger.close();
    ledger = await openTestLedger(homes);
    const records = ledger.recovery(CALLER.credential);
    expect(records.map(({ idempotencyKey, status }) => [idempotencyKey, status])).toEqual([
      ['k1', 'committed'],
      ['k2', 'rejected'],
    ]);
    expect(ledger.recovery(OTHER.credential)).toEqual([]);
  });

  it('[L5] sums are zero per asset and the chain is unbroken', async () => {
    const [a, b] = (await makeAccounts(ledger, 2, 'EUR')) as [string, string];
    await pay('k1', 100);
    await ledger.transact(CALLER, 'k2', transferBody({ from: a, to: b, amount: 9, asset: 'EUR' }));
    expect(await ledger.integrity()).toMatchObject({
      ok: true,
      chain: { ok: true, first: 1 },
      state: {
        assets: [
          { asset: 'EUR', accounts: 2, sum: 0n },
          { asset: 'USD', accounts: 2, sum: 0n },
        ],
      },
    });
  });
});
