import { StoreError } from 'onceward';
import { PowerCutDisk } from 'onceward/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EmbeddedLog } from '../src/log/embedded-log.ts';
import type { AppendResult, LedgerLog, LogRecord } from '../src/log/ledger-log.ts';
import { openLedger } from '../src/open-ledger.ts';
import { MemoryHome } from '../src/state/memory-home.ts';
import { describeLog } from './log-laws.ts';
import {
  CALLER,
  makeAccounts,
  makeFolder,
  type TestLedger,
  testClock,
  transferBody,
} from './manual-ledger.ts';

describeLog('embedded', async () => {
  const folder = await makeFolder();
  return {
    open: () => EmbeddedLog.open({ directory: folder.path, segmentBytes: 16_384 }),
    remove: folder.remove,
  };
});

describeLog('embedded, on a disk that loses what was not synced', async () => {
  let disk = new PowerCutDisk();
  return {
    open() {
      disk = disk.restart();
      return EmbeddedLog.open({ directory: '/log', segmentBytes: 16_384, fileSystem: disk });
    },
    remove: async () => {},
  };
});

type Fault = 'none' | 'lost reply' | 'lost request' | 'lost reply, unreadable' | 'another leader';

/** The embedded log behind a link that can be cut. */
class FaultyLog implements LedgerLog {
  readonly #log: EmbeddedLog;
  fault: Fault = 'none';

  constructor(log: EmbeddedLog) {
    this.#log = log;
  }

  get lastIndex() {
    return this.#log.lastIndex;
  }
  get firstIndex() {
    return this.#log.firstIndex;
  }
  get lastTerm() {
    return this.#log.lastTerm;
  }
  get maxEntryLength() {
    return this.#log.maxEntryLength;
  }
  get byteLength() {
    return this.#log.byteLength;
  }

  async append(record: LogRecord): Promise<AppendResult> {
    const { fault } = this;
    if (fault === 'none') return this.#log.append(record);
    if (fault === 'another leader') return { appended: false, term: 99 };
    if (fault !== 'lost request') await this.#log.append(record);
    throw new StoreError('ONCE_STORE_UNAVAILABLE', 'No answer came.', { applied: 'unknown' });
  }

  async *read(from: number): AsyncIterable<LogRecord> {
    if (this.fault === 'lost reply, unreadable') {
      throw new StoreError('ONCE_STORE_UNAVAILABLE', 'No answer came.', { applied: 'no' });
    }
    yield* this.#log.read(from);
  }

  trim(through: number) {
    return this.#log.trim(through);
  }
  close() {
    return this.#log.close();
  }
}

describe('a ledger whose log does not answer', () => {
  const BODY = transferBody({ from: 'acct_0', to: 'acct_1', amount: 1 });
  let folder: Awaited<ReturnType<typeof makeFolder>>;
  let home: MemoryHome;
  let log: FaultyLog;
  let ledger: TestLedger;

  async function open(): Promise<void> {
    log = new FaultyLog(await EmbeddedLog.open({ directory: folder.path }));
    ledger = await openLedger({ home, log, world: testClock() });
  }

  beforeEach(async () => {
    folder = await makeFolder();
    home = new MemoryHome();
    await open();
    await makeAccounts(ledger, 2);
  });
  afterEach(async () => {
    await ledger.close();
    await folder.remove();
  });

  const pay = (key: string) => ledger.transact(CALLER, key, BODY);
  const balance = () => ledger.reads.account('acct_1')?.balance;

  async function reopen(): Promise<void> {
    await ledger.close();
    await open();
  }

  it('[L8] answers as done what is there though its reply was lost, and goes on', async () => {
    log.fault = 'lost reply';
    expect(await Promise.all([pay('a'), pay('b'), pay('c')])).toMatchObject(
      Array.from({ length: 3 }, () => ({ ok: true })),
    );
    log.fault = 'none';
    expect(await pay('d')).toMatchObject({ ok: true });
    expect(balance()).toBe(4n);
    await reopen();
    expect(balance()).toBe(4n);
    expect(await pay('a')).toMatchObject({ layer: 'database' });
  });

  it.each(['lost request', 'lost reply, unreadable'] as const)(
    '[L8] never says that nothing happened where nobody can tell: %s',
    async (fault) => {
      log.fault = fault;
      const results = await Promise.allSettled([pay('a'), pay('b')]);
      for (const result of results) {
        expect(result).toMatchObject({ status: 'rejected', reason: { applied: 'unknown' } });
      }
      // What comes after it was not even tried.
      log.fault = 'none';
      await expect(pay('c')).rejects.toMatchObject({ applied: 'no' });
      expect(balance()).toBe(0n);
      await reopen();
      const done = fault === 'lost request' ? 0n : 2n;
      expect(balance()).toBe(done);
      expect(await pay('c')).toMatchObject({ ok: true });
    },
  );

  it('stops when another leader writes, and says that nothing of this happened', async () => {
    log.fault = 'another leader';
    await expect(pay('a')).rejects.toMatchObject({
      applied: 'no',
      message: expect.stringContaining('term 99'),
    });
    expect(ledger.failure).toBeDefined();
    log.fault = 'none';
    await expect(pay('a')).rejects.toMatchObject({ applied: 'no' });
    await reopen();
    expect(balance()).toBe(0n);
    expect(await pay('a')).toMatchObject({ ok: true });
  });
});
