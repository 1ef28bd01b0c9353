import { describe, expect, it } from 'vitest';
import type { OperationId, Revision } from '../../engine/record.ts';
import { KIB } from '../../engine/units.ts';
import { type DiskFaults, PowerCutDisk } from '../../testing/stores/power-cut-disk.ts';
import { openWalStore, type WalStore } from './index.ts';

const DUE = 1_000;
const idOf = (key: string): OperationId => ({ scope: 'full', key });

function open(disk: PowerCutDisk): Promise<WalStore> {
  return openWalStore({ directory: '/store', segmentBytes: 8 * KIB, fileSystem: disk });
}

async function put(store: WalStore, key: string, expected: Revision | null = null) {
  const next = { bytes: Buffer.from(`of ${key}`), state: 'committed', dueAt: DUE } as const;
  const result = await store.swap(idOf(key), expected, next);
  if (!result.won) throw new Error(`${key} lost.`);
  return result.revision;
}

const enospc = () =>
  Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });

/** Where in the handling of a write the room ends. */
type Fault = (isFull: () => boolean) => DiskFaults;
const FAULTS: Record<string, Fault> = {
  'at the first byte': (isFull) => ({
    before: ({ kind }) => {
      if (isFull() && kind === 'write') throw enospc();
    },
  }),
  'in the midst of a write': (isFull) => {
    let writes = 0;
    return {
      mostPerWrite: 512,
      before: ({ kind }) => {
        if (isFull() && kind === 'write' && ++writes % 3 === 0) throw enospc();
      },
    };
  },
  'when the write is synced': (isFull) => ({
    beforeSync: ({ isWriteThrough }) => {
      if (isFull() && isWriteThrough) throw enospc();
    },
  }),
  'for a new file': (isFull) => ({
    before: ({ kind, path }) => {
      const isNew = kind === 'open' && path.endsWith('.new');
      if (isFull() && (isNew || kind === 'write')) throw enospc();
    },
  }),
};

describe.each(Object.keys(FAULTS))('wal store on a disk that is full %s', (name) => {
  async function fillUp(cutAt?: number) {
    let isFull = false;
    const faults = FAULTS[name]!(() => isFull);
    const disk = new PowerCutDisk({ ...faults, ...(cutAt === undefined ? {} : { cutAt }) });
    const acknowledged = new Map<string, Revision>();
    const write = async (store: WalStore, key: string) => {
      acknowledged.set(key, await put(store, key, acknowledged.get(key) ?? null));
    };
    const live = async () => {
      const store = await open(disk);
      for (let n = 0; n < 5; n += 1) await write(store, `before ${n}`);
      isFull = true;
      const refusals: unknown[] = [];
      for (let n = 0; n < 6; n += 1) {
        const keys = [`full ${n}`, `more ${n}`, 'before 0'];
        const ended = await Promise.allSettled(
          keys.map((key) => put(store, key, acknowledged.get(key) ?? null)),
        );
        for (const [at, end] of ended.entries()) {
          if (end.status === 'fulfilled') acknowledged.set(keys[at]!, end.value);
          else refusals.push(end.reason);
        }
      }
      isFull = false;
      for (let n = 0; n < 5; n += 1) await write(store, `after ${n}`);
      await write(store, 'before 0');
      return { store, refusals };
    };
    return { disk, acknowledged, live };
  }

  async function assertKept(store: WalStore, acknowledged: ReadonlyMap<string, Revision>) {
    expect(store.damage).toEqual([]);
    for (const [key, revision] of acknowledged) {
      expect(await store.read(idOf(key))).toMatchObject({ revision });
    }
  }

  it('[E12] refuses without a trace while there is no room, and goes on when there is', async () => {
    const { disk, acknowledged, live } = await fillUp();
    const { store, refusals } = await live();
    expect(refusals.length).toBeGreaterThan(0);
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', applied: 'no' });
    }
    await assertKept(store, acknowledged);
    const names = [...disk.files().keys()].filter((path) => path.endsWith('.log'));
    expect(names.length).toBeLessThanOrEqual(8);
    await store.close();
    const again = await open(new PowerCutDisk({}, disk.restart().files()));
    await assertKept(again, acknowledged);
    expect(await again.count()).toMatchObject({ committed: acknowledged.size });
    await again.close();
  });

  it('[E10] keeps what it acknowledged, whenever the power fails meanwhile', async () => {
    const whole = await fillUp();
    await whole.live();
    const { operations } = whole.disk;
    for (let cutAt = 1; cutAt <= operations; cutAt += 1) {
      const { disk, acknowledged, live } = await fillUp(cutAt);
      await live().catch(() => undefined);
      const again = await open(new PowerCutDisk({}, disk.restart().files()));
      expect(again.damage).toEqual([]);
      for (const [key, revision] of acknowledged) {
        const found = await again.read(idOf(key));
        // One that was being written again when the power went may be there in its new form.
        expect(found?.revision ?? 0).toBeGreaterThanOrEqual(revision);
      }
      await again.close();
    }
  }, 60_000);
});
