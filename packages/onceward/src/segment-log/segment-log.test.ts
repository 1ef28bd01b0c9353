import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StoreError } from '../engine/errors.ts';
import { KIB } from '../engine/units.ts';
import { type DiskFaults, PowerCutDisk } from '../testing/stores/power-cut-disk.ts';
import type { Damage } from './damage.ts';
import { openSegmentLog } from './open-segment-log.ts';
import type { LogPosition, SegmentLog } from './segment-log.ts';

const DIRECTORY = '/log';

function segmentsIn(files: ReadonlyMap<string, Buffer>): string[] {
  return [...files.keys()].filter((path) => path.endsWith('.log')).sort();
}

function append(log: SegmentLog, text: string): Promise<LogPosition> {
  return log.appendBytes(Buffer.from(text));
}

interface Replayed {
  readonly log: SegmentLog;
  readonly texts: string[];
  readonly damaged: string[];
}

async function open(disk: PowerCutDisk, acceptDamage = false): Promise<Replayed> {
  const texts: string[] = [];
  const damaged: string[] = [];
  const log = await openSegmentLog({
    directory: DIRECTORY,
    kind: 'test',
    segmentBytes: 16 * KIB,
    acceptDamage,
    fileSystem: disk,
    replay: {
      entry: (bytes, _view, at, length) =>
        texts.push(bytes.toString('utf8', at + 16, at + 16 + length)),
      damagedEntry: ({ payload }) => {
        damaged.push(payload.toString());
        return false;
      },
    },
  });
  return { log, texts, damaged };
}

/** A log with these batches, as a process that was killed leaves it, and where its last batch begins. */
async function write(batches: readonly (readonly string[])[]) {
  const disk = new PowerCutDisk();
  const { log } = await open(disk);
  let last: LogPosition[] = [];
  for (const texts of batches) last = await Promise.all(texts.map((text) => append(log, text)));
  const files = disk.files();
  const path = segmentsIn(files).at(-1) as string;
  const lastBatchAt = (last[0] as LogPosition).offset - 32;
  const highest = (last.at(-1) as LogPosition).sequence;
  return { files, path, bytes: files.get(path) as Buffer, lastBatchAt, highest };
}

function withFile(files: ReadonlyMap<string, Buffer>, path: string, bytes: Buffer): PowerCutDisk {
  return new PowerCutDisk({}, new Map(files).set(path, bytes));
}

const EARLIER = [['one'], ['two', 'three'], ['four'.repeat(300)]];
const LAST = ['five', 'six'.repeat(200), 'seven'.repeat(350), '', 'eight'];
const KEPT = EARLIER.flat();

describe('segment log', () => {
  it('[L8] replays in order what was appended, over segments and lives, and issues no sequence twice', async () => {
    const disk = new PowerCutDisk();
    const appended: string[] = [];
    let highest = 0;
    for (let life = 0; life < 4; life++) {
      const { log, texts } = await open(disk);
      expect(texts).toEqual(appended);
      expect(log.firstSequenceOfLife).toBeGreaterThan(highest);
      for (let index = 0; index < 30; index++) {
        const text = `${life}-${index}`.repeat(1 + index * 10);
        const { segment, offset, sequence } = await append(log, text);
        expect(sequence).toBeGreaterThan(highest);
        highest = sequence;
        appended.push(text);
        const { payload, isIntact } = await log.read(segment, offset, text.length);
        expect([payload.toString(), isIntact]).toEqual([text, true]);
      }
      expect([...log.segments()].length).toBeGreaterThan(1);
      await log.close();
    }
  });

  it('[E2] cuts a torn tail at every byte, whether the file ends there or goes on with zeros', async () => {
    const { files, path, bytes, lastBatchAt } = await write([...EARLIER, LAST]);
    for (let cut = lastBatchAt; cut < bytes.length; cut++) {
      const padded = Buffer.concat([
        bytes.subarray(0, cut),
        Buffer.alloc(bytes.length - cut + 1_024),
      ]);
      for (const torn of [bytes.subarray(0, cut), padded]) {
        const { log, texts } = await open(withFile(files, path, Buffer.from(torn)));
        // Behind its end mark a batch is padded with zeros, and is whole without them.
        const isWhole = torn.length > 0 && texts.length > KEPT.length;
        expect(texts).toEqual(isWhole ? [...KEPT, ...LAST] : KEPT);
        if (isWhole) expect(bytes.subarray(cut).every((byte) => byte === 0)).toBe(true);
        expect(log.damage).toEqual([]);
        await log.close();
      }
    }
  });

  it('[E2] cuts a tail of which any sectors are missing, and stays so when opened again', async () => {
    const { files, path, bytes, lastBatchAt } = await write([...EARLIER, LAST]);
    const sectors = Math.ceil((bytes.length - lastBatchAt) / 512);
    expect(sectors).toBeGreaterThan(3);
    for (let missing = 1; missing < 2 ** sectors; missing++) {
      const torn = Buffer.from(bytes);
      for (let sector = 0; sector < sectors; sector++) {
        if (missing & (1 << sector))
          torn.fill(0, lastBatchAt + sector * 512, lastBatchAt + (sector + 1) * 512);
      }
      const disk = withFile(files, path, torn);
      for (let life = 0; life < 2; life++) {
        const { log, texts } = await open(disk);
        expect(texts).toEqual(KEPT);
        expect(log.damage).toEqual([]);
        await log.close();
      }
    }
  });

  it('[E10] reports a flipped bit or recovers from it, anywhere in any file, and never drops an entry in silence', async () => {
    const killed = await write([...EARLIER, LAST]);
    const closedDisk = new PowerCutDisk({}, killed.files);
    await (await open(closedDisk)).log.close();
    const whole = [...KEPT, ...LAST];
    let refusals = 0;
    for (const files of [killed.files, closedDisk.files()]) {
      const paths = segmentsIn(files);
      const flip = fc.record({ file: fc.nat(paths.length - 1), at: fc.nat(), bit: fc.nat(7) });
      const property = fc.asyncProperty(flip, async ({ file, at, bit }) => {
        const path = paths[file] as string;
        const bytes = Buffer.from(files.get(path) as Buffer);
        if (bytes.length === 0) return;
        const place = at % bytes.length;
        bytes[place] = (bytes[place] as number) ^ (1 << bit);
        const result = await open(withFile(files, path, bytes)).catch((error: unknown) => error);
        if (!(result instanceof StoreError)) {
          expect((result as Replayed).texts).toEqual(whole);
          return;
        }
        refusals++;
        expect(result.code).toMatch(/^ONCE_(RECORD_UNREADABLE|STORE_VERSION)$/);
        // What can still be read is read if the operator says so: all but the entry that was hit.
        const { texts, log } = await open(withFile(files, path, bytes), true);
        const lost = whole.filter((text) => !texts.includes(text));
        expect(log.damage.length).toBeGreaterThan(0);
        expect(lost.length).toBeLessThanOrEqual(1);
        expect(texts).toEqual(whole.filter((text) => texts.includes(text)));
      });
      await fc.assert(property, { numRuns: 600 });
    }
    expect(refusals).toBeGreaterThan(100);
  });

  it('[E10] takes a batch that misses a sector for damage where another follows it, or a clean close', async () => {
    const code = 'ONCE_RECORD_UNREADABLE';
    const wiped = (bytes: Buffer, from: number) => Buffer.from(bytes).fill(0, from, from + 512);
    const torn = await write([...EARLIER, LAST]);
    const followed = await write([...EARLIER, LAST, ['behind it']]);
    const inMiddle = wiped(followed.bytes, torn.lastBatchAt + 512);
    const damaged = withFile(followed.files, followed.path, inMiddle);
    await expect(open(damaged)).rejects.toMatchObject({ code });

    const disk = new PowerCutDisk();
    const { log } = await open(disk);
    const { offset } = await append(log, 'x'.repeat(2_000));
    await log.close();
    const path = segmentsIn(disk.files()).at(-1) as string;
    const afterClose = wiped(disk.files().get(path) as Buffer, offset - 32 + 512);
    await expect(open(withFile(disk.files(), path, afterClose))).rejects.toMatchObject({ code });
  });

  it('[E5] issues no sequence again that a torn tail has swallowed', async () => {
    const { files, path, bytes, lastBatchAt, highest } = await write([...EARLIER, LAST]);
    const { log } = await open(
      withFile(files, path, Buffer.from(bytes.subarray(0, lastBatchAt + 600))),
    );
    expect(log.firstSequenceOfLife).toBeGreaterThan(highest);
    await log.close();
  });

  it('[E10] refuses to open where a segment in between is missing', async () => {
    const disk = new PowerCutDisk();
    const { log } = await open(disk);
    for (let index = 0; index < 40; index++) await append(log, 'x'.repeat(1_000));
    await log.close();
    const files = disk.files();
    const paths = segmentsIn(files);
    expect(paths.length).toBeGreaterThan(2);
    files.delete(paths[1] as string);
    const code = 'ONCE_RECORD_UNREADABLE';
    await expect(open(new PowerCutDisk({}, files))).rejects.toMatchObject({ code });
    const accepted = await open(new PowerCutDisk({}, files), true);
    expect(accepted.log.damage.map(({ finding }: Damage) => finding)).toEqual([
      'a segment before this one is missing or lost its end',
    ]);
  });

  it('passes over a last segment that was never begun', async () => {
    const { files } = await write(EARLIER);
    for (const blank of [Buffer.alloc(0), Buffer.alloc(100), Buffer.alloc(4_096)]) {
      const disk = withFile(files, `${DIRECTORY}/000000000009.log`, blank);
      const { log, texts } = await open(disk);
      expect(texts).toEqual(KEPT);
      expect(log.damage).toEqual([]);
      await log.close();
    }
  });

  it('refuses files of another version, kind or program before it writes anything', async () => {
    const { files, path, bytes } = await write(EARLIER);
    const newer = Buffer.from(bytes);
    for (const copy of [0, 256]) newer.writeUInt32LE(2, copy + 8);
    for (const foreign of [newer, Buffer.from('not ours at all'.repeat(100))]) {
      const disk = withFile(files, path, foreign);
      const before = disk.files();
      await expect(open(disk)).rejects.toMatchObject({ code: 'ONCE_STORE_VERSION' });
      expect(disk.files()).toEqual(before);
    }
    const options = {
      directory: DIRECTORY,
      kind: 'other',
      fileSystem: new PowerCutDisk({}, files),
      replay: { entry: () => undefined, damagedEntry: () => false },
    };
    await expect(openSegmentLog(options)).rejects.toMatchObject({ code: 'ONCE_STORE_VERSION' });
  });
});

describe('segment log on a failing disk', () => {
  const fail = (code: string) => Object.assign(new Error(`${code}: injected`), { code });

  /** Writes until the disk fails; returns what was acknowledged and how the rest failed. */
  async function writeUntilFailure(faults: DiskFaults) {
    const disk = new PowerCutDisk(faults);
    const { log } = await open(disk);
    const acknowledged: string[] = [];
    const errors: { code?: string; applied?: string }[] = [];
    for (let round = 0; round < 10; round++) {
      const texts = [0, 1, 2].map((index) => `${round}.${index} ${'x'.repeat(900)}`);
      const results = await Promise.allSettled(
        texts.map(async (text) => {
          await append(log, text);
          acknowledged.push(text);
        }),
      );
      for (const result of results) if (result.status === 'rejected') errors.push(result.reason);
    }
    return { disk, log, acknowledged, errors };
  }

  for (const code of ['EIO', 'ENOSPC', 'EDQUOT']) {
    it(`[E12] stops all writes for good after ${code} and loses nothing acknowledged`, async () => {
      let writes = 0;
      const { disk, log, acknowledged, errors } = await writeUntilFailure({
        before: ({ isWriteThrough }) => {
          if (isWriteThrough && ++writes === 4) throw fail(code);
        },
      });
      expect(acknowledged).toHaveLength(9);
      expect(errors).toHaveLength(21);
      expect(errors.every((error) => error.code === 'ONCE_STORE_FAILED')).toBe(true);
      expect(errors.map(({ applied }) => applied)).toEqual([
        ...Array(3).fill('unknown'),
        ...Array(18).fill('no'),
      ]);
      expect(writes).toBe(4);
      await expect(log.close()).rejects.toMatchObject({ code: 'ONCE_STORE_FAILED' });
      const { texts } = await open(new PowerCutDisk({}, disk.files()));
      expect(texts).toEqual(acknowledged);
    });
  }

  for (const step of ['open', 'write', 'sync', 'rename', 'syncDirectory'] as const) {
    it(`[E12] stops when a new segment cannot be made at its ${step}, and keeps what it has`, async () => {
      let syncs = 0;
      const { disk, acknowledged, errors } = await writeUntilFailure({
        before: ({ kind, path }) => {
          const isSecond = path.includes('000000000002') || (path === DIRECTORY && ++syncs === 3);
          if (kind === step && isSecond) throw fail('ENOSPC');
        },
      });
      expect(errors.length).toBeGreaterThan(0);
      expect(acknowledged.length).toBeGreaterThan(0);
      const { texts } = await open(new PowerCutDisk({}, disk.files()));
      expect(texts).toEqual(acknowledged);
    });
  }

  it('[E2] makes durable at the next opening what a failed sync has left in the cache', async () => {
    let writes = 0;
    const { disk, log, acknowledged } = await writeUntilFailure({
      beforeSync: ({ isWriteThrough }) => {
        if (isWriteThrough && ++writes === 4) throw fail('EIO');
      },
    });
    await expect(log.close()).rejects.toMatchObject({ code: 'ONCE_STORE_FAILED' });
    const { texts } = await open(disk);
    expect(texts.slice(0, 9)).toEqual(acknowledged);
    expect(texts).toHaveLength(12);
    const afterCut = await open(disk.restart());
    expect(afterCut.texts).toEqual(texts);
  });

  it('[E2] writes on where a write was cut short by the system', async () => {
    const { disk, acknowledged, errors } = await writeUntilFailure({ mostPerWrite: 700 });
    expect(errors).toEqual([]);
    const { texts } = await open(new PowerCutDisk({}, disk.files()));
    expect(texts).toEqual(acknowledged);
  });

  it('[E12] rejects a failed read with a coded error', async () => {
    let isFailing = false;
    const disk = new PowerCutDisk({
      before: ({ kind }) => {
        if (isFailing && kind === 'read') throw fail('EIO');
      },
    });
    const { log } = await open(disk);
    const { segment, offset } = await append(log, 'text');
    isFailing = true;
    const reading = log.read(segment, offset, 4);
    await expect(reading).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
    isFailing = false;
    await log.close();
    const files = disk.files();
    const unreadable = new PowerCutDisk(
      { before: ({ kind }) => kind === 'read' && failNow() },
      files,
    );
    await expect(open(unreadable)).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' });
    function failNow(): never {
      throw fail('EIO');
    }
  });
});
