import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { OperationId, Revision } from '../../engine/record.ts';
import { KIB } from '../../engine/units.ts';
import { PowerCutDisk } from '../../testing/stores/power-cut-disk.ts';
import { openWalStore, type WalStore } from './index.ts';

const DUE = 1_000;
const WORKERS = 8;
const KEYS_PER_WORKER = 6;

interface Version {
  readonly revision: Revision | null;
  readonly text: string | null;
  /** A sweep may have removed it without its worker's knowledge. */
  readonly isSweepable: boolean;
}

const ABSENT: Version = { revision: null, text: null, isSweepable: false };

/** What the workers know, each of its own keys, and what they were about to write. */
class Knowledge {
  readonly versions = new Map<string, Version>();
  readonly attempts = new Map<string, string | null>();
}

const idOf = (key: string): OperationId => ({ scope: 'churn', key });

function open(disk: PowerCutDisk): Promise<WalStore> {
  return openWalStore({ directory: '/store', segmentBytes: 4 * KIB, fileSystem: disk });
}

async function runWorker(store: WalStore, known: Knowledge, worker: number, turns: number[]) {
  for (const [turn, dice] of turns.entries()) {
    const key = `${worker}-${dice % KEYS_PER_WORKER}`;
    const before = known.versions.get(key) ?? ABSENT;
    const isForgetting = before.revision !== null && dice % 5 === 0;
    const text = isForgetting ? null : `${key} turn ${turn} ${'x'.repeat(dice % 300)}`;
    const state = dice % 2 === 0 ? 'committed' : dice % 7 === 0 ? 'in_doubt' : 'pending';
    known.attempts.set(key, text);
    const next = text === null ? null : ({ bytes: Buffer.from(text), state, dueAt: DUE } as const);
    const result = await store.swap(idOf(key), before.revision, next);
    known.attempts.delete(key);
    if (result.won) {
      const revision = text === null ? null : result.revision;
      known.versions.set(key, { revision, text, isSweepable: state === 'committed' });
    } else {
      expect(before.isSweepable).toBe(true);
      expect(result.current).toBeNull();
      known.versions.set(key, ABSENT);
    }
  }
}

async function assertKnown(store: WalStore, known: Knowledge): Promise<void> {
  expect(store.damage).toEqual([]);
  let present = 0;
  const keys = new Set([...known.versions.keys(), ...known.attempts.keys()]);
  for (const key of keys) {
    const stored = await store.read(idOf(key));
    const text = stored && Buffer.from(stored.bytes).toString();
    if (stored) present++;
    const version = known.versions.get(key) ?? ABSENT;
    const isAttempt = known.attempts.has(key) && known.attempts.get(key) === text;
    if (isAttempt || (text === null && version.isSweepable)) continue;
    expect({ key, text, revision: stored?.revision ?? null }).toEqual({
      key,
      text: version.text,
      revision: version.revision,
    });
  }
  const { pending, committed, rejected, in_doubt } = await store.count();
  expect(pending + committed + rejected + in_doubt).toBe(present);
}

describe('wal store under churn', () => {
  it('[E2] agrees with its callers after sweeps, reclamation and a power cut, in any order', {
    timeout: 60_000,
  }, async () => {
    let reclaimed = 0;
    const history = fc.record({
      turns: fc.array(fc.array(fc.nat(10_000), { minLength: 20, maxLength: 40 }), {
        minLength: WORKERS,
        maxLength: WORKERS,
      }),
      cutAt: fc.integer({ min: 30, max: 1_500 }),
      seed: fc.nat(),
    });
    const property = fc.asyncProperty(history, async ({ turns, cutAt, seed }) => {
      const disk = new PowerCutDisk({ cutAt, seed });
      const known = new Knowledge();
      const store = await open(disk).catch(() => null);
      if (store) {
        let isWorking = true;
        const sweep = async () => {
          while (isWorking) {
            await store.forgetDue(DUE, 3);
            await new Promise((resolve) => setTimeout(resolve, 1));
          }
        };
        const sweeping = sweep();
        const workers = turns.map((own, worker) => runWorker(store, known, worker, own));
        for (const result of await Promise.allSettled(workers)) {
          if (result.status === 'rejected' && !disk.isCut) throw result.reason;
        }
        isWorking = false;
        await sweeping.catch(() => undefined);
        await assertKnown(store, known).catch((error: unknown) => {
          if (!disk.isCut) throw error;
        });
      }
      const numbers = [...disk.files().keys()].filter((path) => path.endsWith('.log'));
      if (!numbers.includes('/store/000000000001.log')) reclaimed++;
      const restarted = disk.restart();
      const again = await open(restarted);
      await assertKnown(again, known);
      await again.close();
      const last = await open(restarted);
      await assertKnown(last, known);
      await last.close();
    });
    await fc.assert(property, { numRuns: 40 });
    expect(reclaimed).toBeGreaterThan(5);
  });
});
