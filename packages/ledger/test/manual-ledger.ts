import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { World } from 'onceward';
import type { FileSystem } from 'onceward/segment-log';
import { EmbeddedLog } from '../src/log/embedded-log.ts';
import { type LedgerOptions, openLedger } from '../src/open-ledger.ts';
import type { MemoryHome } from '../src/state/memory-home.ts';

/** A wall clock that is moved by hand. Timers are real: the pipeline uses them for latency only. */
export interface TestClock extends World {
  advance(ms: number): void;
}

export function testClock(start = Date.UTC(2030, 0, 1)): TestClock {
  let now = start;
  let tokens = 0;
  return {
    now: () => now,
    elapsed: () => now - start,
    random: () => 0.5,
    token: () => `token-${(tokens += 1)}`,
    startTimer(ms, callback) {
      const timer = setTimeout(callback, ms);
      return { cancel: () => clearTimeout(timer) };
    },
    advance(ms) {
      now += ms;
    },
  };
}

export const CALLER = { actor: 'client:shop', credential: 'ak_shop' } as const;
export const OTHER = { actor: 'client:bank', credential: 'ak_bank' } as const;

export async function makeFolder(): Promise<{ path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'onceward-ledger-'));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}

export interface TestHomes {
  readonly directory: string;
  readonly home: MemoryHome;
  readonly world: TestClock;
  readonly fileSystem?: FileSystem;
}

/** A ledger whose log is real and whose state lives in memory that outlasts it. */
export async function openTestLedger(homes: TestHomes, options: LedgerOptions = {}) {
  const { directory, home, world, fileSystem } = homes;
  const log = await EmbeddedLog.open({ directory, ...(fileSystem && { fileSystem }) });
  return openLedger({ home, world, log, ...options });
}

export type TestLedger = Awaited<ReturnType<typeof openTestLedger>>;

export interface Transfer {
  readonly from: string;
  readonly to: string;
  readonly amount: bigint | number | string;
  readonly policy?: string;
  readonly asset?: string;
}

export function transferBody(...transfers: readonly Transfer[]) {
  return {
    journal_entries: transfers.map(({ from, to, amount, policy = 'NONE', asset = 'USD' }, at) => ({
      sequence: at + 1,
      type: 'PAYMENT',
      asset,
      amount,
      debit: { account_id: from, balance_policy: policy },
      credit: { account_id: to, balance_policy: 'NONE' },
    })),
  };
}

export async function makeAccounts(ledger: TestLedger, count: number, asset = 'USD') {
  const made = Array.from({ length: count }, () =>
    ledger.createAccount(CALLER, { category: 'WALLET', asset }),
  );
  return (await Promise.all(made)).map((result) => {
    if (!result.ok) throw new Error(result.message);
    return result.id;
  });
}

/** A UUID of version 4 that a number stands for. */
export function uuid(number: number): Uint8Array {
  const bytes = new Uint8Array(16);
  new DataView(bytes.buffer).setUint32(0, number);
  bytes[6] = 0x40;
  bytes[8] = 0x80;
  return bytes;
}

export function text(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}
