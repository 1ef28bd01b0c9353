import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryHome } from '../src/state/memory-home.ts';
import {
  CALLER,
  makeFolder,
  OTHER,
  openTestLedger,
  type TestClock,
  type TestLedger,
  testClock,
  uuid,
} from './manual-ledger.ts';

const DAY = 86_400_000;
const WALLET = { category: 'WALLET', asset: 'USD' };

let folder: Awaited<ReturnType<typeof makeFolder>>;
let homes: { directory: string; home: MemoryHome; world: TestClock };
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

function idOf(result: { ok: boolean }): string {
  if (!result.ok) throw new Error(JSON.stringify(result));
  return (result as unknown as { id: string }).id;
}

const tipHeight = () => ledger.getTip().header.height;

describe('a creation with a key', () => {
  it('[L11] happens once, and a repeat leaves nothing in the log', async () => {
    const created = await Promise.all([
      ledger.createAccount(CALLER, WALLET, 'k'),
      ledger.createAccount(CALLER, WALLET, 'k'),
      ledger.createAccount(CALLER, WALLET),
      ledger.createAccount(CALLER, { category: 'wallet', asset: 'usd' }, 'k'),
    ]);
    const ids = created.map(idOf);
    expect(ids).toEqual([ids[0], ids[0], 'acct_1', ids[0]]);
    const height = tipHeight();
    expect(idOf(await ledger.createAccount(CALLER, WALLET, 'k'))).toBe(ids[0]);
    expect(tipHeight()).toBe(height);
    expect(ledger.reads.account('acct_2')).toBeUndefined();
  });

  it('[L11] has a key of its own kind, credential and content', async () => {
    const key = uuid(1);
    const hex = Buffer.from(key).toString('hex');
    const organization = idOf(
      await ledger.createOrganization(CALLER, { name: 'a', idempotencyKey: key }),
    );
    const vault = { organization, name: 'a', idempotencyKey: key };
    const made = idOf(await ledger.createVault(CALLER, vault));
    const account = idOf(await ledger.createAccount(CALLER, WALLET, hex));
    expect(idOf(await ledger.createVault(CALLER, vault))).toBe(made);
    expect(idOf(await ledger.createAccount(OTHER, WALLET, hex))).not.toBe(account);
    const reused = { ok: false, code: 'IDEMPOTENCY_KEY_REUSED' };
    expect(await ledger.createVault(CALLER, { ...vault, name: 'b' })).toMatchObject(reused);
    expect(await ledger.createAccount(CALLER, { ...WALLET, asset: 'EUR' }, hex)).toMatchObject(
      reused,
    );
    const other = { name: 'b', idempotencyKey: key };
    expect(await ledger.createOrganization(CALLER, other)).toMatchObject(reused);
    expect(
      await ledger.createOrganization(CALLER, { name: 'a', idempotencyKey: new Uint8Array(3) }),
    ).toMatchObject({
      code: 'IDEMPOTENCY_KEY_INVALID',
    });
  });

  it('[L11] that was refused leaves its key free', async () => {
    const key = uuid(2);
    const vault = { organization: 'org_9_9', name: 'a', idempotencyKey: key };
    expect(await ledger.createVault(CALLER, vault)).toMatchObject({
      code: 'ORGANIZATION_NOT_FOUND',
    });
    const organization = idOf(await ledger.createOrganization(CALLER, { name: 'a' }));
    idOf(await ledger.createVault(CALLER, { ...vault, organization }));
  });

  it('[L9] [L11] is known from the log alone, and forgotten after its time', async () => {
    await ledger.createAccount(CALLER, WALLET);
    const id = idOf(await ledger.createAccount(CALLER, WALLET, 'k'));
    const key = uuid(3);
    const organization = idOf(
      await ledger.createOrganization(CALLER, { name: 'a', idempotencyKey: key }),
    );
    const { hash } = ledger.getTip();
    await ledger.close();
    homes.home.lose('state');
    homes.home.lose('history');
    ledger = await openTestLedger(homes);
    expect(ledger.getTip().header.previous).toBe(hash);
    homes.world.advance(DAY);
    await ledger.createAccount(CALLER, WALLET);
    expect(idOf(await ledger.createAccount(CALLER, WALLET, 'k'))).toBe(id);
    expect(idOf(await ledger.createOrganization(CALLER, { name: 'a', idempotencyKey: key }))).toBe(
      organization,
    );
    homes.world.advance(1);
    await ledger.createAccount(CALLER, WALLET);
    expect(idOf(await ledger.createAccount(CALLER, WALLET, 'k'))).not.toBe(id);
  });
});
