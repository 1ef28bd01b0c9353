import { describe, expect, it } from 'vitest';
import type { OperationId, RecordState, Revision } from '../../engine/record.ts';
import { KIB } from '../../engine/units.ts';
import { PowerCutDisk } from '../../testing/stores/power-cut-disk.ts';
import { openWalStore, type WalStore } from './index.ts';

const DUE = 1_000;

interface Version {
  readonly revision: Revision | null;
  readonly text: string | null;
}

/** What each record may be: what was acknowledged last, or what was being written when the power went. */
class Ledger {
  readonly acknowledged = new Map<string, Version>();
  readonly attempted = new Map<string, string | null>();
  readonly sweptAt = new Set<string>();
  highest = 0;
}

const idOf = (key: string): OperationId => ({ scope: 'cut', key });

async function change(
  store: WalStore,
  ledger: Ledger,
  key: string,
  text: string | null,
  state: RecordState = 'pending',
): Promise<void> {
  const expected = ledger.acknowledged.get(key)?.revision ?? null;
  ledger.attempted.set(key, text);
  const next = text === null ? null : { bytes: Buffer.from(text), state, dueAt: DUE };
  const result = await store.swap(idOf(key), expected, next);
  if (!result.won) throw new Error(`${key} lost without a rival.`);
  ledger.highest = Math.max(ledger.highest, result.revision);
  ledger.acknowledged.set(key, { revision: text === null ? null : result.revision, text });
  ledger.attempted.delete(key);
}

/** Enough of everything to roll and to reclaim several segments of 4 KiB; some records stay for ever. */
async function work(store: WalStore, ledger: Ledger): Promise<void> {
  await change(store, ledger, 'doubtful', 'stays', 'in_doubt');
  await change(store, ledger, 'running', 'stays');
  for (let round = 0; round < 14; round++) {
    const keys = [`a${round}`, `b${round % 3}`, `c${round % 2}`];
    const filler = 'x'.repeat(100 + 40 * (round % 5));
    await Promise.all(keys.map((key) => change(store, ledger, key, `claim ${round} ${filler}`)));
    await Promise.all(
      keys.map((key) => change(store, ledger, key, `settled ${round} ${filler}`, 'committed')),
    );
    await change(store, ledger, `b${round % 3}`, null);
    if (round % 4 === 3) {
      for (const [key, { text }] of ledger.acknowledged) {
        if (text?.startsWith('settled')) ledger.sweptAt.add(key);
      }
      await store.forgetDue(DUE, 100);
      for (const key of ledger.sweptAt) {
        ledger.acknowledged.set(key, { revision: null, text: null });
      }
      ledger.sweptAt.clear();
    }
  }
}

async function assertKept(store: WalStore, ledger: Ledger): Promise<void> {
  expect(store.damage).toEqual([]);
  expect(store.traits.firstRevisionOfLife).toBeGreaterThan(ledger.highest);
  const keys = new Set([...ledger.acknowledged.keys(), ...ledger.attempted.keys()]);
  for (const key of keys) {
    const stored = await store.read(idOf(key));
    const text = stored && Buffer.from(stored.bytes).toString();
    const known = ledger.acknowledged.get(key) ?? { revision: null, text: null };
    const isUnderWay = ledger.attempted.has(key) && ledger.attempted.get(key) === text;
    const isBeingSwept = ledger.sweptAt.has(key) && text === null;
    if (isUnderWay || isBeingSwept) continue;
    expect({ key, text }).toEqual({ key, text: known.text });
    expect(stored?.revision ?? null).toBe(known.revision);
  }
}

async function open(disk: PowerCutDisk): Promise<WalStore> {
  return openWalStore({ directory: '/store', segmentBytes: 4 * KIB, fileSystem: disk });
}

async function liveUntilCut(disk: PowerCutDisk, ledger: Ledger): Promise<void> {
  try {
    const store = await open(disk);
    await work(store, ledger);
    await store.close();
  } catch (error) {
    if (!disk.isCut) throw error;
  }
}

describe('wal store at a power cut', () => {
  it('[E2] keeps what was acknowledged and resurrects nothing, at whichever file operation the power fails', {
    timeout: 120_000,
  }, async () => {
    const whole = new PowerCutDisk();
    await liveUntilCut(whole, new Ledger());
    expect(whole.operations).toBeGreaterThan(150);
    for (let cutAt = 1; cutAt <= whole.operations; cutAt++) {
      const ledger = new Ledger();
      const disk = new PowerCutDisk({ cutAt, seed: cutAt });
      await liveUntilCut(disk, ledger);
      const first = disk.restart();
      const store = await open(first);
      await assertKept(store, ledger);
      // What the first opening found must be what every later one finds, also if it crashed itself.
      const before = await Promise.all(
        [...ledger.attempted.keys()].map((key) => store.read(idOf(key))),
      );
      const again = await open(first.restart());
      const after = await Promise.all(
        [...ledger.attempted.keys()].map((key) => again.read(idOf(key))),
      );
      expect(after).toEqual(before);
      await assertKept(again, ledger);
      await again.close();
      await store.close();
    }
  });

  it('[E2] survives cuts while it is being opened after a cut', { timeout: 120_000 }, async () => {
    const whole = new PowerCutDisk();
    const ledger = new Ledger();
    const store = await open(whole);
    await work(store, ledger);
    for (let cutAt = 1; cutAt < 60; cutAt++) {
      const disk = whole.restart({ cutAt, seed: cutAt });
      let opened: WalStore | null = null;
      try {
        opened = await open(disk);
      } catch (error) {
        if (!disk.isCut) throw error;
      }
      const last = await open(disk.restart());
      await assertKept(last, ledger);
      await last.close();
      if (opened && !disk.isCut) await opened.close();
    }
    await store.close();
  });

  it('[E2] [J3] keeps both records of one insert or neither, at whichever file operation the power fails', {
    timeout: 120_000,
  }, async () => {
    // Three travel together. The third fills the batch with its first record and still needs it for its second.
    const lengths = [10, 400 * KIB, 300 * KIB, 300, 5 * KIB, 600 * KIB, 10, 2 * KIB];
    const acknowledged = new Set<number>();
    const insertPairs = async (disk: PowerCutDisk) => {
      const store = await openWalStore({ directory: '/store', fileSystem: disk });
      const insert = async (i: number, length: number) => {
        const next = { bytes: Buffer.alloc(length, i + 1), state: 'pending', dueAt: DUE } as const;
        const pair = [`first ${i}`, `second ${i}`].map((key) => ({ id: idOf(key), next }));
        if ((await store.insertAll(pair)) !== null) acknowledged.add(i);
      };
      for (let from = 0; from < lengths.length; from += 3) {
        const together = lengths.slice(from, from + 3);
        await Promise.all(together.map((length, i) => insert(from + i, length)));
      }
      await store.close();
    };
    const whole = new PowerCutDisk();
    await insertPairs(whole);
    expect(acknowledged.size).toBe(lengths.length);
    for (let cutAt = 1; cutAt <= whole.operations; cutAt++) {
      acknowledged.clear();
      const disk = new PowerCutDisk({ cutAt, seed: cutAt });
      await insertPairs(disk).catch((error) => {
        if (!disk.isCut) throw error;
      });
      const store = await openWalStore({ directory: '/store', fileSystem: disk.restart() });
      for (let i = 0; i < lengths.length; i++) {
        const first = await store.read(idOf(`first ${i}`));
        const second = await store.read(idOf(`second ${i}`));
        expect(first === null).toBe(second === null);
        if (acknowledged.has(i)) expect(second?.bytes.length).toBe(lengths[i]);
      }
      await store.close();
    }
  });

  it('[E11] gives the space of forgotten records back', async () => {
    const disk = new PowerCutDisk();
    const store = await open(disk);
    const ledger = new Ledger();
    for (let round = 0; round < 10; round++) await work(store, ledger);
    await store.forgetDue(DUE, 1_000);
    await store.close();
    const bytes = [...disk.files().values()].reduce((total, file) => total + file.length, 0);
    expect(bytes).toBeLessThan(40 * KIB);
    const again = await open(disk);
    expect(await again.count()).toEqual({ pending: 1, committed: 0, rejected: 0, in_doubt: 1 });
    await again.close();
  });
});
