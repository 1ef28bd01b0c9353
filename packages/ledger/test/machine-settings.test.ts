import { afterEach, beforeEach, describe, expect, it } from 'vitest';
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

const HOUR = 3_600_000;
const BODY = transferBody({ from: 'acct_0', to: 'acct_1', amount: 1 });

let folder: Awaited<ReturnType<typeof makeFolder>>;
let homes: { directory: string; home: MemoryHome; world: TestClock };
let ledger: TestLedger;

beforeEach(async () => {
  folder = await makeFolder();
  homes = { directory: folder.path, home: new MemoryHome(), world: testClock() };
  ledger = await openTestLedger(homes, { idempotencyTtlMs: 2 * HOUR });
  await makeAccounts(ledger, 2);
});

afterEach(async () => {
  await ledger.close();
  await folder.remove();
});

describe('the settings of the state machine', () => {
  it('[L12] are those of the ledger where the caller gives none', async () => {
    await ledger.transact(CALLER, 'a', BODY);
    await ledger.close();
    ledger = await openTestLedger(homes);
    homes.world.advance(HOUR);
    expect(ledger.settings.idempotencyTtlMs).toBe(2 * HOUR);
    expect(await ledger.transact(CALLER, 'a', BODY)).toMatchObject({ layer: 'database' });
  });

  it('[L12] stop an opening that asks for others, which writes nothing', async () => {
    await ledger.transact(CALLER, 'a', BODY);
    const { hash } = ledger.getTip();
    await ledger.close();
    for (const other of [
      { idempotencyTtlMs: HOUR },
      { idempotencyCleanupMs: 1 },
      { databaseConflict: 'reject_duplicate' as const },
      { evictionInterval: 7 },
      { clientTtlMs: 1 },
    ]) {
      const opening = openTestLedger(homes, other);
      await expect(opening).rejects.toMatchObject({ code: 'ONCE_INVALID_CONFIG' });
      await expect(opening).rejects.toThrow('onceward ledger-settings --apply');
    }
    const opening = openTestLedger(homes, { idempotencyTtlMs: HOUR });
    await expect(opening).rejects.toThrow('LEDGER_IDEMPOTENCY_TTL_HOURS is 1, the ledger has 2');
    ledger = await openTestLedger(homes, { idempotencyTtlMs: 2 * HOUR, batchSize: 7 });
    expect(ledger.getTip().header.previous).toBe(hash);
    expect(await ledger.transact(CALLER, 'a', BODY)).toMatchObject({ layer: 'database' });
  });

  it('[L12] change by an entry of the log that has who changed them, and hold after a rebuild', async () => {
    await ledger.transact(CALLER, 'a', BODY);
    const operator = { actor: 'system:operator', credential: 'operator' } as const;
    const changed = await ledger.changeSettings(operator, { idempotencyTtlMs: HOUR });
    if (!changed.ok) throw new Error(changed.message);
    const [line] = ledger.getBlock(changed.blockHeight)?.texts ?? [];
    expect(JSON.parse(line ?? '')).toMatchObject({
      kind: 'settings',
      actor: 'system:operator',
      settings: { idempotency_ttl_ms: HOUR, database_conflict: 'rollback' },
      status: 'committed',
    });
    expect(line).not.toContain('hash_key');
    const state = ledger.getTip().header.state;
    await ledger.close();
    homes.home.lose('state');
    ledger = await openTestLedger(homes);
    expect(ledger.getBlock(changed.blockHeight)?.header.state).toBe(state);
    expect(ledger.settings.idempotencyTtlMs).toBe(HOUR);
    homes.world.advance(HOUR);
    expect(await ledger.transact(CALLER, 'a', BODY)).toMatchObject({ ok: true });
  });

  it('[L12] are refused if they make no sense', async () => {
    const change = ledger.changeSettings(CALLER, { idempotencyTtlMs: -1 });
    await expect(change).rejects.toThrow('idempotencyTtlMs');
  });
});
