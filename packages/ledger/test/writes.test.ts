import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WriteInput } from '../src/pipeline/admit.ts';
import type { OperationInput } from '../src/rules/check-operations.ts';
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
  uuid,
} from './manual-ledger.ts';

const DAY = 86_400_000;

let folder: Awaited<ReturnType<typeof makeFolder>>;
let homes: TestHomes;
let ledger: TestLedger;
let organization: string;
let vault: string;

beforeEach(async () => {
  folder = await makeFolder();
  homes = { directory: folder.path, home: new MemoryHome(), world: testClock() };
  ledger = await openTestLedger(homes, { evictionInterval: 10 });
  organization = idOf(await ledger.createOrganization(CALLER, { name: 'acme' }));
  vault = idOf(await ledger.createVault(CALLER, { organization, name: 'main' }));
});

afterEach(async () => {
  await ledger.close();
  await folder.remove();
});

function idOf(result: { ok: boolean }): string {
  if (!result.ok) throw new Error(JSON.stringify(result));
  return (result as unknown as { id: string }).id;
}

function set(key: string, value: string, more = {}): OperationInput {
  return { setEntity: { key, value: text(value), ...more } };
}

function input(key: number, operations: OperationInput[], more: Partial<WriteInput> = {}) {
  return { organization, clientId: 'app', idempotencyKey: uuid(key), operations, ...more };
}

async function reopen(): Promise<void> {
  await ledger.close();
  ledger = await openTestLedger(homes, { evictionInterval: 10 });
}

function valueAt(key: string, scope = {}): string | undefined {
  const entity = ledger.reads.entity({ organization, ...scope }, key);
  return entity && Buffer.from(entity.value).toString();
}

describe('a sequenced write', () => {
  it('[S2] sets, deletes, relates and unrelates, with the actor of its caller', async () => {
    const relation = { resource: 'doc:1', relation: 'viewer', subject: 'user:2' };
    const first = await ledger.write(
      CALLER,
      input(1, [set('a', '1'), set('b', '2'), { createRelationship: relation }]),
    );
    if (!first.ok) throw new Error(first.message);
    expect(ledger.history.transaction(first.txId)?.transaction).toMatchObject({
      id: first.txId,
      actor: 'client:shop',
      client: 'app',
      key: Buffer.from(uuid(1)).toString('hex'),
      assigned_sequence: '1',
    });
    expect(ledger.reads.hasRelationship({ organization }, relation)).toBe(true);
    await ledger.write(
      CALLER,
      input(2, [{ deleteEntity: { key: 'a' } }, { deleteRelationship: relation }]),
    );
    expect([valueAt('a'), valueAt('b')]).toEqual([undefined, '2']);
    expect(ledger.reads.hasRelationship({ organization }, relation)).toBe(false);
  });

  it('[S2] posts between accounts, and shows up in their entries', async () => {
    const [from, to] = (await makeAccounts(ledger, 2)) as [string, string];
    const post = (amount: number, balance_policy = 'NONE'): OperationInput => ({
      post: {
        asset: 'USD',
        amount,
        debit: { account_id: from, balance_policy },
        credit: { account_id: to },
      },
    });
    expect(await ledger.write(CALLER, input(1, [set('a', '1'), post(5)]))).toMatchObject({
      ok: true,
    });
    const poor = await ledger.write(CALLER, input(2, [set('a', '2'), post(1, 'ALWAYS_POSITIVE')]));
    expect(poor).toMatchObject({ code: 'INSUFFICIENT_FUNDS' });
    expect(valueAt('a')).toBe('1');
    expect(ledger.reads.account(to)?.balance).toBe(5n);
    const page = ledger.history.accountEntries(to, null, 10);
    expect(page).toMatchObject({ ok: true, value: { entries: [{ amount: '5', type: 'POST' }] } });
  });

  it.each([
    [{ notExists: true } as const, 'KEY_EXISTS'],
    [{ version: 7 }, 'VERSION_MISMATCH'],
    [{ valueEquals: text('other') }, 'VALUE_MISMATCH'],
  ])('[S2] whose condition %j does not hold is refused with %s', async (condition, code) => {
    await ledger.write(CALLER, input(1, [set('a', '1')]));
    const result = await ledger.write(
      CALLER,
      input(2, [set('b', 'x'), set('a', '2', { condition })]),
    );
    expect(result).toMatchObject({ ok: false, code, key: 'a', currentVersion: 1 });
    expect([valueAt('a'), valueAt('b')]).toEqual(['1', undefined]);
    expect(ledger.reads.clientState({ organization }, 'app')).toBe(1n);
  });

  it('[S2] whose conditions hold is run', async () => {
    const write = (n: number, value: string, condition: object) =>
      ledger.write(CALLER, input(n, [set('a', value, { condition })]));
    expect(await write(1, '1', { mustExist: true })).toMatchObject({ code: 'KEY_NOT_FOUND' });
    expect(await write(2, '1', { notExists: true })).toMatchObject({ ok: true });
    expect(await write(3, '2', { mustExist: true })).toMatchObject({ ok: true });
    expect(await write(4, '3', { version: '2' })).toMatchObject({ ok: true });
    expect(await write(5, '4', { valueEquals: text('3') })).toMatchObject({ ok: true });
    expect(ledger.reads.entity({ organization }, 'a')).toMatchObject({ version: 4 });
  });

  it('[S2] an entity that expired is absent, and is cleared away in time', async () => {
    const expiresAt = homes.world.now() + 1_000;
    await ledger.write(CALLER, input(1, [set('a', '1', { expiresAt })]));
    const stored = ledger.reads.verifiedEntity({ organization }, 'a');
    expect(stored.proof.bucket).toContain('"expires_at"');
    homes.world.advance(1_000);
    expect(valueAt('a')).toBeUndefined();
    const condition = { mustExist: true } as const;
    const absent = await ledger.write(CALLER, input(99, [set('a', '2', { condition })]));
    expect(absent).toMatchObject({ code: 'KEY_NOT_FOUND' });
    for (let n = 2; n <= 12; n += 1) await ledger.write(CALLER, input(n, [set('b', 'x')]));
    expect(ledger.reads.verifiedEntity({ organization }, 'a').proof.bucket).not.toContain('-/a"');
  });

  it('[S3] runs in sequence, reports a gap, and never runs a used sequence again', async () => {
    const write = (n: number, sequence: bigint) =>
      ledger.write(CALLER, input(n, [set('a', String(n))], { sequence }));
    expect(await write(1, 1n)).toMatchObject({ ok: true, assignedSequence: 1n });
    expect(await write(2, 3n)).toMatchObject({ code: 'SEQUENCE_GAP', lastCommittedSequence: 1n });
    expect(await write(3, 2n)).toMatchObject({ ok: true, assignedSequence: 2n });
    expect(await write(4, 1n)).toMatchObject({ code: 'ALREADY_COMMITTED', assignedSequence: 1n });
    expect(valueAt('a')).toBe('3');
    expect(ledger.reads.clientState({ organization }, 'app')).toBe(2n);
  });

  it('[S3] gets the next sequence when it brings none', async () => {
    const writes = [1, 2, 3].map((n) => ledger.write(CALLER, input(n, [set('a', String(n))])));
    const results = await Promise.all(writes);
    expect(results.map((result) => result.ok && result.assignedSequence)).toEqual([1n, 2n, 3n]);
  });

  it('[S3] may bring sequences up to 2^64 - 1 and no other', async () => {
    const code = async (sequence: bigint) => {
      const result = await ledger.write(CALLER, input(1, [set('a', '1')], { sequence }));
      return result.ok ? 'ok' : result.code;
    };
    expect(await code(2n ** 64n - 1n)).toBe('SEQUENCE_GAP');
    expect(await code(2n ** 64n)).toBe('INVALID_FIELD');
    expect(await code(0n)).toBe('INVALID_FIELD');
    expect(await code(-1n)).toBe('INVALID_FIELD');
  });

  it('[S6] has a stream of its own in each organization and vault', async () => {
    await ledger.write(CALLER, input(1, [set('a', 'org')]));
    await ledger.write(CALLER, input(2, [set('a', 'org2')]));
    await ledger.write(CALLER, input(1, [set('a', 'vault')], { vault }));
    expect(ledger.reads.clientState({ organization }, 'app')).toBe(2n);
    expect(ledger.reads.clientState({ organization, vault }, 'app')).toBe(1n);
    expect([valueAt('a'), valueAt('a', { vault })]).toEqual(['org2', 'vault']);
    const lost = await ledger.write(CALLER, input(9, [set('a', 'x')], { organization: 'org_9_9' }));
    expect(lost).toMatchObject({ code: 'ORGANIZATION_NOT_FOUND' });
    const astray = await ledger.write(CALLER, input(9, [set('a', 'x')], { vault: 'vault_9_9' }));
    expect(astray).toMatchObject({ code: 'VAULT_NOT_FOUND' });
  });

  it('[S7] a batch takes one sequence, and all of it happens or nothing', async () => {
    const batch = (n: number, condition = {}) =>
      ledger.batchWrite(CALLER, {
        organization,
        clientId: 'app',
        idempotencyKey: uuid(n),
        writes: [{ operations: [set('a', `${n}`)] }, { operations: [set('b', `${n}`, condition)] }],
      });
    expect(await batch(1)).toMatchObject({ ok: true, assignedSequence: 1n });
    const failed = await batch(2, { condition: { notExists: true } });
    expect(failed).toMatchObject({ code: 'KEY_EXISTS', lastCommittedSequence: 1n });
    expect([valueAt('a'), valueAt('b')]).toEqual(['1', '1']);
    expect(ledger.reads.clientState({ organization }, 'app')).toBe(1n);
  });

  it('[S8] an actor comes from the caller, never from the request', async () => {
    const forged = { ...input(1, [set('a', '1')]), actor: 'user:root' };
    expect(await ledger.write(CALLER, forged)).toMatchObject({ code: 'ACTOR_NOT_ALLOWED' });
    const nobody = { actor: 'root' as 'user:root', credential: 'ak_shop' };
    expect(await ledger.write(nobody, input(1, [set('a', '1')]))).toMatchObject({ ok: false });
    expect(valueAt('a')).toBeUndefined();
  });

  it.each<[string, Partial<WriteInput>, string]>([
    ['an empty client id', { clientId: '' }, 'INVALID_FIELD'],
    [
      'a key that is no UUID of version 4',
      { idempotencyKey: new Uint8Array(16) },
      'IDEMPOTENCY_KEY_INVALID',
    ],
    ['a key of 15 bytes', { idempotencyKey: uuid(1).subarray(1) }, 'IDEMPOTENCY_KEY_INVALID'],
    ['no operations', { operations: [] }, 'INVALID_FIELD'],
    ['1,001 operations', { operations: Array(1_001).fill(set('a', '1')) }, 'TOO_LARGE'],
    ['a value over its limit', { operations: [set('a', 'x'.repeat(65_537))] }, 'TOO_LARGE'],
    ['a key over its limit', { operations: [set('x'.repeat(1_025), '')] }, 'TOO_LARGE'],
    ['half of a surrogate pair', { operations: [set('\ud800', '')] }, 'INVALID_FIELD'],
    ['an unknown operation', { operations: [{ explode: {} } as never] }, 'INVALID_FIELD'],
  ])('[S2] with %s is refused, and the queue goes on', async (_, more, code) => {
    const bad = ledger.write(CALLER, input(1, [set('a', '1')], more));
    const good = ledger.write(CALLER, input(2, [set('b', '2')]));
    expect(await bad).toMatchObject({ ok: false, code });
    expect(await good).toMatchObject({ ok: true, assignedSequence: 1n });
  });
});

describe('a retry of a sequenced write', () => {
  it('[S4] gets the whole first answer while the near tier has it', async () => {
    const request = input(1, [set('a', '1')], { sequence: 1n });
    const first = await ledger.write(CALLER, request, { includeTxProof: true });
    await ledger.write(CALLER, input(2, [set('a', '2')], { sequence: 2n }));
    expect(await ledger.write(CALLER, request, { includeTxProof: true })).toEqual(first);
    expect(first).toMatchObject({ blockHeader: { height: expect.any(Number) }, txProof: {} });
    expect(valueAt('a')).toBe('2');
  });

  it('[S4] shares the answer of one that is still running', async () => {
    const request = input(1, [set('a', '1')]);
    const answers = [ledger.write(CALLER, request), ledger.write(CALLER, request)];
    const [first, second] = await Promise.all(answers);
    expect(second).toEqual(first);
    expect(ledger.reads.entity({ organization }, 'a')?.version).toBe(1);
  });

  it('[S4] gets ALREADY_COMMITTED with its receipt after a restart', async () => {
    const request = input(1, [set('a', '1')]);
    const first = await ledger.write(CALLER, request);
    if (!first.ok) throw new Error(first.message);
    for (let n = 2; n <= 40; n += 1) await ledger.write(CALLER, input(n, [set('b', `${n}`)]));
    await reopen();
    expect(await ledger.write(CALLER, request)).toMatchObject({
      code: 'ALREADY_COMMITTED',
      assignedSequence: 1n,
      committedTxId: first.txId,
      committedBlockHeight: first.blockHeight,
      lastCommittedSequence: 40n,
    });
  });

  it('[S13] is known by its key for its whole time, whatever came after it and with a cold cache', async () => {
    const sent = Array.from({ length: 300 }, (_, n) =>
      ledger.write(CALLER, input(n + 1, [set('a', `${n}`)])),
    );
    const answers = await Promise.all(sent);
    homes.world.advance(DAY);
    await reopen();
    for (const n of [1, 2, 7, 64, 65, 128, 299, 300]) {
      const first = answers[n - 1];
      expect(await ledger.write(CALLER, input(n, [set('a', `${n - 1}`)]))).toMatchObject({
        code: 'ALREADY_COMMITTED',
        committedTxId: first?.ok && first.txId,
        assignedSequence: BigInt(n),
      });
    }
    expect(await ledger.write(CALLER, input(1, [set('a', 'x')]))).toMatchObject({
      code: 'IDEMPOTENCY_KEY_REUSED',
    });
    expect(ledger.reads.entity({ organization }, 'a')?.version).toBe(300);
    homes.world.advance(1);
    await ledger.write(CALLER, input(301, [set('b', '1')]));
    const old = await ledger.write(CALLER, input(2, [set('a', '1')], { sequence: 2n }));
    expect(old).toMatchObject({ code: 'ALREADY_COMMITTED', assignedSequence: 2n });
    expect(old).not.toHaveProperty('committedTxId');
  });

  it('[S4] under the same key with other operations is refused, before and after a restart', async () => {
    await ledger.write(CALLER, input(1, [set('a', '1')]));
    const other = input(1, [set('a', '2')]);
    expect(await ledger.write(CALLER, other)).toMatchObject({ code: 'IDEMPOTENCY_KEY_REUSED' });
    await reopen();
    expect(await ledger.write(CALLER, other)).toMatchObject({ code: 'IDEMPOTENCY_KEY_REUSED' });
    expect(valueAt('a')).toBe('1');
  });

  it('[S5] is a new write once its client was forgotten, and its stream begins at 1', async () => {
    const request = input(1, [set('a', '1')]);
    await ledger.write(CALLER, request);
    await ledger.write(CALLER, input(2, [set('a', '2')]));
    homes.world.advance(DAY);
    const other = (n: number) => input(n, [set('z', `${n}`)], { clientId: 'other' });
    for (let n = 1; n <= 20; n += 1) await ledger.write(CALLER, other(n));
    expect(ledger.reads.clientState({ organization }, 'app')).toBe(2n);
    homes.world.advance(1);
    for (let n = 21; n <= 31; n += 1) await ledger.write(CALLER, other(n));
    expect(ledger.reads.clientState({ organization }, 'app')).toBe(0n);
    expect(await ledger.write(CALLER, request)).toMatchObject({ ok: true, assignedSequence: 1n });
    expect(ledger.reads.clientState({ organization }, 'other')).toBe(31n);
  });
});
