import { describe, expect, it } from 'vitest';
import { KIB } from '../engine/units.ts';
import { PowerCutDisk } from '../testing/stores/power-cut-disk.ts';
import type { Damage } from './damage.ts';
import { openSegmentLog } from './open-segment-log.ts';

function open(disk: PowerCutDisk, entries: string[] = [], acceptDamage = false) {
  return openSegmentLog({
    directory: '/log',
    kind: 'test',
    segmentBytes: 4 * KIB,
    acceptDamage,
    fileSystem: disk,
    replay: {
      entry: (bytes, _view, at, length) => {
        entries.push(bytes.toString('latin1', at + 16, at + 16 + length).trim());
      },
      damagedEntry: () => false,
    },
  });
}

const payload = (n: number) => Buffer.from(`entry ${n}`.padEnd(900));

/** A folder with several full segments, closed well. */
async function writeSegments() {
  const disk = new PowerCutDisk();
  const log = await open(disk);
  for (let n = 0; n < 20; n += 1) await log.appendBytes(payload(n));
  await log.close();
  const files = disk.files();
  const segments = [...files.keys()].filter((path) => path.endsWith('.log')).sort();
  return { files, segments };
}

function without(files: ReadonlyMap<string, Buffer>, ...paths: readonly string[]): PowerCutDisk {
  const left = new Map(files);
  for (const path of paths) left.delete(path);
  return new PowerCutDisk({}, left);
}

describe('the ends of a log', () => {
  it.each([
    ['first', 0],
    ['last', -1],
  ])('[E10] a log whose %s segment is missing does not open', async (end, at) => {
    const { files, segments } = await writeSegments();
    expect(segments.length).toBeGreaterThanOrEqual(3);
    const lost = segments.at(at) as string;
    await expect(open(without(files, lost))).rejects.toMatchObject({
      code: 'ONCE_RECORD_UNREADABLE',
      message: expect.stringContaining(`the ${end} segment of the log is missing`),
    });
  });

  it('[E10] a log that has lost all its segments does not start over', async () => {
    const { files, segments } = await writeSegments();
    await expect(open(without(files, ...segments))).rejects.toMatchObject({
      code: 'ONCE_RECORD_UNREADABLE',
    });
  });

  it('[E10] opened with the loss accepted it goes on, and gives no number twice', async () => {
    const { files, segments } = await writeSegments();
    const lost = segments.at(-1) as string;
    const disk = without(files, lost);
    const log = await open(disk, [], true);
    expect(log.damage.map(({ file }: Damage) => file)).toEqual([lost]);
    await log.appendBytes(payload(99));
    await log.close();
    expect([...disk.files().keys()]).not.toContain(lost);
    const entries: string[] = [];
    const again = await open(new PowerCutDisk({}, disk.files()), entries);
    expect(again.damage).toEqual([]);
    expect(entries.at(-1)).toBe('entry 99');
    await again.close();
  });

  it('[E10] a folder of an earlier version opens, and is watched from then on', async () => {
    const { files, segments } = await writeSegments();
    const disk = without(files, '/log/extent.json');
    const entries: string[] = [];
    const log = await open(disk, entries);
    expect(entries).toHaveLength(20);
    await log.close();
    const after = without(disk.files(), segments[0] as string);
    await expect(open(after)).rejects.toMatchObject({ code: 'ONCE_RECORD_UNREADABLE' });
  });

  it('[E10] wherever the power fails while segments come and go, no segment is missed and none is lost', async () => {
    const live = async (disk: PowerCutDisk, acknowledged: string[]) => {
      const log = await open(disk);
      for (let n = 0; n < 16; n += 1) {
        await log.appendBytes(payload(n));
        acknowledged.push(`entry ${n}`);
        const numbers = [...log.segments()].map(({ number }) => number);
        if (numbers.length < 4) continue;
        // From here on what it held counts for nothing.
        acknowledged.splice(0, 4);
        await log.dropOldest(numbers[0] as number);
      }
      await log.close();
    };
    const whole = new PowerCutDisk();
    await live(whole, []);
    for (let cutAt = 1; cutAt <= whole.operations; cutAt += 1) {
      const disk = new PowerCutDisk({ cutAt, seed: cutAt });
      const acknowledged: string[] = [];
      await live(disk, acknowledged).catch(() => undefined);
      const entries: string[] = [];
      const again = await open(new PowerCutDisk({}, disk.restart().files()), entries);
      expect([cutAt, again.damage]).toEqual([cutAt, []]);
      expect(entries).toEqual(expect.arrayContaining(acknowledged));
      await again.close();
    }
  }, 60_000);
});
