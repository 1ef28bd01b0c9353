import { PowerCutDisk } from 'onceward/testing';
import { expect, it } from 'vitest';
import { EmbeddedLog } from '../src/log/embedded-log.ts';
import type { AppendResult, LogRecord } from '../src/log/ledger-log.ts';
import { openLedger } from '../src/open-ledger.ts';
import { MemoryHome } from '../src/state/memory-home.ts';
import { CALLER, makeAccounts, testClock, transferBody } from './manual-ledger.ts';

const DIRECTORY = '/ledger';
const BODY = transferBody({ from: 'acct_0', to: 'acct_1', amount: 1 });

/** Opens the log so that appends are not acknowledged once `isDeaf` is set. */
async function openLog(fileSystem: PowerCutDisk, state = { isDeaf: false }) {
  const log = await EmbeddedLog.open({ directory: DIRECTORY, fileSystem });
  const append = log.append.bind(log);
  log.append = async (record: LogRecord): Promise<AppendResult> => {
    const result = await append(record);
    return state.isDeaf ? new Promise<never>(() => {}) : result;
  };
  return log;
}

async function openOn(disk: PowerCutDisk, home: MemoryHome, state?: { isDeaf: boolean }) {
  const settings = { batchSize: 1, historyBytes: 1, idempotencyTtlMs: 1 };
  return openLedger({ log: await openLog(disk, state), home, world: testClock(), ...settings });
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

it('[L10] recovery lists all that was in flight when the process died, however small its batches', async () => {
  const disk = new PowerCutDisk();
  const home = new MemoryHome();
  const state = { isDeaf: false };
  const log = await openLog(disk, state);
  const ledger = await openLedger({
    log,
    home,
    world: testClock(),
    ...{ batchSize: 1, historyBytes: 1, idempotencyTtlMs: 1 },
  });
  await makeAccounts(ledger, 2);
  for (let n = 0; n < 20; n += 1) await ledger.transact(CALLER, `answered-${n}`, BODY);
  state.isDeaf = true;
  const before = log.lastIndex;
  for (let n = 0; n < 239; n += 1) void ledger.transact(CALLER, `lost-${n}`, BODY);
  await until(() => log.lastIndex === before + 239);

  const listed = (again: typeof ledger) => {
    const keys = again.recovery(CALLER.credential).map(({ idempotencyKey }) => idempotencyKey);
    return keys.filter((key) => key.startsWith('lost-')).length;
  };
  const second = disk.restart();
  const again = await openOn(second, home);
  expect(listed(again)).toBe(239);
  // Another life that ends before it has served anyone: still those of the last one that did.
  await again.checkpoint();
  const third = await openOn(second.restart(), home);
  expect(listed(third)).toBe(239);
  for (let n = 0; n < 20; n += 1) await third.transact(CALLER, `later-${n}`, BODY);
  await third.close();
}, 30_000);
