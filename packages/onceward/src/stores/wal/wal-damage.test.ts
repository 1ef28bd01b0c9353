import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StoreError } from '../../engine/errors.ts';
import type { OperationId, RecordState, Revision } from '../../engine/record.ts';
import { KIB } from '../../engine/units.ts';
import { type DiskFaults, PowerCutDisk } from '../../testing/stores/power-cut-disk.ts';
import { openWalStore, type WalStore } from './index.ts';

const NOW = 1_000;
const idOf = (key: string): OperationId => ({ scope: 'damage', key });

function open(disk: PowerCutDisk, acceptDamage = false): Promise<WalStore> {
  return openWalStore({
    directory: '/store',
    segmentBytes: 8 * KIB,
    fileSystem: disk,
    acceptDamage,
  });
}

async function put(
  store: WalStore,
  key: string,
  expected: Revision | null,
  text: string,
  state: RecordState,
): Promise<Revision> {
  const next = { bytes: Buffer.from(text), state, dueAt: NOW };
  const result = await store.swap(idOf(key), expected, next);
  if (!result.won) throw new Error(`${key} lost.`);
  return result.revision;
}

/** Claimed and committed records, and forgotten ones, as a killed process leaves them. */
async function writeSome() {
  const disk = new PowerCutDisk();
  const store = await open(disk);
  const kept = new Map<string, { revision: Revision; text: string }>();
  await Promise.all(
    Array.from({ length: 12 }, async (_, index) => {
      const key = `key-${index}`;
      const text = `outcome of ${key} `.repeat(1 + index);
      const claimed = await put(store, key, null, `claim of ${key}`, 'pending');
      const settled = await put(store, key, claimed, text, 'committed');
      if (index % 4 !== 3) kept.set(key, { revision: settled, text });
      else await store.swap(idOf(key), settled, null);
    }),
  );
  return { files: disk.files(), kept };
}

function lastSegment(files: ReadonlyMap<string, Buffer>): string {
  return [...files.keys()].filter((path) => path.endsWith('.log')).at(-1) as string;
}

function withFile(files: ReadonlyMap<string, Buffer>, path: string, bytes: Buffer): PowerCutDisk {
  return new PowerCutDisk({}, new Map(files).set(path, bytes));
}

describe('wal store with damage', () => {
  it('[E10] treats no damaged record as absent: it comes back as stored, or the store refuses to open', async () => {
    const { files, kept } = await writeSome();
    const path = lastSegment(files);
    const intact = files.get(path) as Buffer;
    let quarantined = 0;
    const flip = fc.record({ at: fc.nat(intact.length - 1), bit: fc.nat(7) });
    const property = fc.asyncProperty(flip, async ({ at, bit }) => {
      const bytes = Buffer.from(intact);
      bytes[at] = (bytes[at] as number) ^ (1 << bit);
      const disk = withFile(files, path, bytes);
      const store = await open(disk).catch((error: unknown) => error);
      if (store instanceof StoreError) {
        expect(store.code).toMatch(/^ONCE_(RECORD_UNREADABLE|STORE_VERSION)$/);
        return;
      }
      const opened = store as WalStore;
      const changed: string[] = [];
      for (const [key, { revision, text }] of kept) {
        const stored = await opened.read(idOf(key));
        // Never absent, and never the claim that came before the outcome.
        expect(stored?.revision, key).toBe(revision);
        if (Buffer.from(stored?.bytes ?? []).toString() !== text) changed.push(key);
      }
      expect(changed.length).toBeLessThanOrEqual(opened.damage.length);
      if (opened.damage.length > 0) quarantined++;
      const { committed, in_doubt } = await opened.count();
      expect(committed + in_doubt).toBe(kept.size);
      // The doubt outlives sweeping and another restart.
      await opened.forgetDue(NOW, 1_000);
      for (const key of changed) expect(await opened.read(idOf(key))).not.toBeNull();
      await opened.close();
      const again = await open(disk);
      expect((await again.count()).in_doubt).toBe(in_doubt);
      await again.close();
    });
    await fc.assert(property, { numRuns: 500 });
    expect(quarantined).toBeGreaterThan(20);
  });

  it('[E10] serves a record as it is when its bytes go bad while the store is open', async () => {
    const disk = new PowerCutDisk();
    const store = await open(disk);
    const revision = await put(store, 'rots', null, 'a text that rots', 'committed');
    const path = lastSegment(disk.files());
    const file = await disk.open(path, 'write');
    const bytes = disk.files().get(path) as Buffer;
    const at = bytes.indexOf('a text that rots');
    await file.write(Buffer.from('A'), at);
    const stored = await store.read(idOf('rots'));
    expect(stored?.revision).toBe(revision);
    expect(Buffer.from(stored?.bytes ?? []).toString()).toBe('A text that rots');
    // Also where the id is hit: absent would mean that the operation may run again.
    await file.write(Buffer.from('X'), at - 2);
    expect(await store.read(idOf('rots'))).toMatchObject({ revision });
    const claim = store.swap(idOf('rots'), null, {
      bytes: Buffer.from('x'),
      state: 'pending',
      dueAt: null,
    });
    expect(await claim).toMatchObject({ won: false, current: { revision } });
    await store.close();
  });

  it('[E10] refuses to open over a loss, and reports it when forced to open', async () => {
    const { files } = await writeSome();
    const path = lastSegment(files);
    const bytes = Buffer.from(files.get(path) as Buffer);
    // Wipes the head of a record's entry, id and all, in the middle of the file.
    const at = bytes.indexOf('outcome of key-5');
    bytes.fill(0xff, at - 80, at);
    const code = 'ONCE_RECORD_UNREADABLE';
    await expect(open(withFile(files, path, bytes))).rejects.toMatchObject({ code });
    const told: string[] = [];
    const store = await openWalStore({
      directory: '/store',
      fileSystem: withFile(files, path, bytes),
      acceptDamage: true,
      onDamage: ({ file, finding }) => told.push(`${file}: ${finding}`),
    });
    expect(told.length).toBeGreaterThan(0);
    expect(store.damage).toHaveLength(told.length);
    await store.close();
  });
});

describe('wal store made to open over a loss', () => {
  it('[E10] has one record for each id, though what forgot the one before is lost', async () => {
    const disk = new PowerCutDisk();
    const store = await open(disk);
    for (let turn = 0; turn < 3; turn++) {
      const revision = await put(store, 'again', null, `turn ${turn}`, 'committed');
      if (turn < 2) await store.swap(idOf('again'), revision, null);
    }
    await put(store, 'other', null, 'other', 'committed');
    const files = disk.files();
    const path = lastSegment(files);
    const bytes = Buffer.from(files.get(path) as Buffer);
    // Each swap was a batch of its own: this wipes the first forgetting, whole.
    const at = Math.floor(bytes.indexOf('turn 0') / 512) * 512 + 512;
    bytes.fill(0xee, at, at + 512);
    const opened = await open(withFile(files, path, bytes), true);
    expect(opened.damage).toHaveLength(1);
    expect(await opened.count()).toMatchObject({ committed: 2 });
    expect(Buffer.from((await opened.read(idOf('again')))?.bytes ?? []).toString()).toBe('turn 2');
    await opened.close();
  });
});

describe('wal store on a failing disk', () => {
  async function openFailing(fault: (isFailing: boolean) => DiskFaults) {
    let isFailing = false;
    const disk = new PowerCutDisk({
      before: (operation) => fault(isFailing).before?.(operation),
      beforeSync: (operation) => fault(isFailing).beforeSync?.(operation),
    });
    return {
      disk,
      store: await open(disk),
      fail: () => {
        isFailing = true;
      },
    };
  }
  const eio = () => Object.assign(new Error('EIO: injected'), { code: 'EIO' });

  it('[E12] stops after a failed sync: no swap wins any more, and the one in question is neither shown nor denied', async () => {
    const { disk, store, fail } = await openFailing((isFailing) => ({
      beforeSync: ({ isWriteThrough }) => {
        if (isFailing && isWriteThrough) throw eio();
      },
    }));
    const revision = await put(store, 'before', null, 'kept', 'committed');
    const pending = await put(store, 'updated', null, 'old', 'pending');
    fail();
    const unknown = { code: 'ONCE_STORE_FAILED', applied: 'unknown' };
    const swaps = [
      put(store, 'claimed', null, 'new', 'pending'),
      put(store, 'updated', pending, 'new', 'committed'),
    ];
    for (const swap of await Promise.allSettled(swaps)) {
      expect(swap).toMatchObject({ status: 'rejected', reason: unknown });
    }
    const refused = { code: 'ONCE_STORE_FAILED', applied: 'no' };
    await expect(put(store, 'later', null, 'x', 'pending')).rejects.toMatchObject(refused);
    await expect(put(store, 'claimed', null, 'x', 'pending')).rejects.toMatchObject(refused);
    await expect(store.forgetDue(NOW, 10)).rejects.toMatchObject(refused);
    await expect(store.read(idOf('claimed'))).rejects.toMatchObject(unknown);
    await expect(store.read(idOf('updated'))).rejects.toMatchObject(unknown);
    expect(await store.read(idOf('before'))).toMatchObject({ revision });
    await expect(store.close()).rejects.toMatchObject({ code: 'ONCE_STORE_FAILED' });
    const again = await open(new PowerCutDisk({}, disk.restart().files()));
    expect(await again.read(idOf('before'))).toMatchObject({ revision });
    await again.close();
  });

  it('[E12] answers a failed read with a coded error and goes on', async () => {
    const { store, fail } = await openFailing((isFailing) => ({
      before: ({ kind }) => {
        if (isFailing && kind === 'read') throw eio();
      },
    }));
    const revision = await put(store, 'a', null, 'text', 'pending');
    fail();
    const code = 'ONCE_STORE_UNAVAILABLE';
    await expect(store.read(idOf('a'))).rejects.toMatchObject({ code, applied: 'no' });
    await expect(put(store, 'a', null, 'x', 'pending')).rejects.toMatchObject({
      code,
      applied: 'no',
    });
    await put(store, 'a', revision, 'settled', 'committed');
    await store.close();
  });
});
