import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
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
const BODY = transferBody({ from: 'acct_0', to: 'acct_1', amount: 1 });

let folder: Awaited<ReturnType<typeof makeFolder>>;
let world: TestClock;
let ledger: TestLedger;

beforeEach(async () => {
  folder = await makeFolder();
  world = testClock();
  ledger = await open();
  await makeAccounts(ledger, 2);
});

afterEach(async () => {
  await ledger.close();
  await folder.remove();
});

async function open(options: LedgerOptions = {}): Promise<TestLedger> {
  const log = await EmbeddedLog.open({ directory: join(folder.path, 'log'), segmentBytes: 16_384 });
  return openLedger({ directory: folder.path, world, log, ...options });
}

async function pay(count: number, name: string): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    const result = await ledger.transact(CALLER, `${name}-${n}`, BODY);
    if (!result.ok) throw new Error(result.message);
  }
}

/** Closes, loses, and opens again. */
async function lose(...parts: readonly string[]): Promise<void> {
  await ledger.close();
  for (const part of parts) await rm(join(folder.path, part), { recursive: true });
  ledger = await open();
}

async function expectAllRefused(count: number, name: string): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    expect(await ledger.transact(CALLER, `${name}-${n}`, BODY)).toMatchObject({
      code: 'DUPLICATE_IDEMPOTENCY_KEY',
      layer: 'database',
    });
  }
}

/** Every block with its bytes, but for barriers, which each opening adds. */
function blocks(): string[] {
  const all: string[] = [];
  for (let height = ledger.firstBlock; height <= ledger.getTip().header.height; height += 1) {
    all.push(ledger.getBlock(height)?.hash ?? 'missing');
  }
  return all;
}

describe('a ledger that has lost a part of its folder', () => {
  it('[L9] refuses every key of its window though the history is missing, and makes the same blocks again', async () => {
    await pay(40, 'a');
    const before = blocks();
    await lose('state/history');
    expect(ledger.opening.rebuiltBecause).toMatch(/the history has not all blocks up to 4\d/);
    expect(blocks().slice(0, -1)).toEqual(before);
    await expectAllRefused(40, 'a');
    expect(ledger.reads.account('acct_1')?.balance).toBe(40n);
    expect(await ledger.integrity()).toMatchObject({ ok: true, chain: { first: 1 } });
  });

  it('[L9] refuses every key of its window though history and the log before the snapshot are gone', async () => {
    await ledger.close();
    ledger = await open({ checkpointBytes: 1, snapshotBytes: 1 });
    await pay(200, 'a');
    const { height } = ledger.getTip().header;
    await lose('state/history');
    expect(ledger.firstBlock).toBeGreaterThan(1);
    expect(ledger.getTip().header.height).toBe(height + 1);
    expect(() => ledger.history.idempotency(CALLER.credential, 'a-0')).toThrow(/has lost/);
    expect(ledger.history.idempotency(CALLER.credential, 'unused')).toBeUndefined();
    await expectAllRefused(200, 'a');
    expect(ledger.reads.account('acct_1')?.balance).toBe(200n);
    expect(await ledger.integrity()).toMatchObject({ ok: true });
    await lose();
    await expectAllRefused(200, 'a');
    expect(await ledger.integrity()).toMatchObject({ ok: true });
  });

  it('[L9] gives the same answers from a rebuilt state as before its history was trimmed', async () => {
    await ledger.close();
    ledger = await open({ historyBytes: 1, checkpointBytes: 1 });
    // Refused within the first window, and posted again after it: both depend on blocks that are trimmed later.
    await pay(10, 'a');
    await expectAllRefused(10, 'a');
    world.advance(HOUR);
    await pay(10, 'a');
    world.advance(HOUR / 2);
    await pay(30, 'b');
    await ledger.checkpoint();
    expect(ledger.firstBlock).toBeGreaterThan(10);
    const { header } = ledger.getTip();
    await lose('state/state');
    expect(ledger.getBlock(header.height)?.header).toEqual(header);
    expect(ledger.reads.account('acct_1')?.balance).toBe(50n);
    await expectAllRefused(10, 'a');
    await expectAllRefused(30, 'b');
    expect(await ledger.integrity()).toMatchObject({ ok: true });
  });

  it('[L9] [S13] knows the keys of its writes from the log alone', async () => {
    const created = await ledger.createOrganization(CALLER, { name: 'acme' });
    if (!created.ok) throw new Error(created.message);
    const write = (n: number) =>
      ledger.write(CALLER, {
        organization: created.id,
        clientId: 'app',
        idempotencyKey: uuid(n),
        operations: [{ setEntity: { key: 'a', value: text(`${n}`) } }],
      });
    for (let n = 1; n <= 100; n += 1) await write(n);
    await lose('state');
    for (const n of [1, 36, 37, 100]) {
      expect(await write(n)).toMatchObject({
        code: 'ALREADY_COMMITTED',
        assignedSequence: BigInt(n),
      });
    }
    expect(ledger.reads.entity({ organization: created.id }, 'a')?.version).toBe(100);
  });

  it('[L9] is not opened without its log, whatever else is there', async () => {
    await pay(5, 'a');
    await ledger.close();
    await rm(join(folder.path, 'log'), { recursive: true });
    await expect(open()).rejects.toThrow(
      /the log is missing, but the state knows of entry \d+.*Restore its folder from a backup/,
    );
    await rm(join(folder.path, 'log'), { recursive: true });
    await rm(join(folder.path, 'state', 'state'), { recursive: true });
    await expect(open()).rejects.toThrow(/the log is missing, but the history knows of entry \d+/);
    await rm(folder.path, { recursive: true });
    ledger = await open();
  });
});
