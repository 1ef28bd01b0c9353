import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { bundle } from '../bundle.ts';
import { inspect } from './inspection.ts';
import { type CrashOptions, type CrashResult, WRITER } from './kill-loop.ts';
import { LoopDisk, mountImage, unmountImage } from './loop-disk.ts';
import { Testimony } from './testimony.ts';
import { WriterProcess } from './writer-process.ts';

/** Cuts of one writer's disk before it gets a new one. */
const CUTS_A_DISK = 5;

/**
 * Cuts the power of a disk that a writer is writing to, again and again, and checks each disk as it was left: what
 * had been acknowledged before the cut began must be on it.
 */
export async function cutPower(cuts: number, options: CrashOptions = {}): Promise<CrashResult> {
  const result = { crashes: 0, answered: 0, effects: 0, complaints: [] as string[] };
  while (result.crashes < cuts) {
    const disk = await LoopDisk.create();
    const testimony = new Testimony();
    let writer: WriterProcess | null = null;
    try {
      const script = join(disk.folder, 'writer.mjs');
      await bundle(WRITER, script, options.edits);
      writer = new WriterProcess(script, join(disk.mountPoint, 'store'), 0, testimony);
      await writer.opened();
      for (let cut = 0; cut < CUTS_A_DISK && result.crashes < cuts; cut += 1) {
        await pause(50 + Math.random() * 400);
        writer.assertAlive();
        const known = testimony.soFar();
        result.complaints.push(...(await cutAndInspect(disk, known)));
        result.crashes += 1;
        options.onCrash?.(result.crashes);
      }
    } finally {
      await writer?.kill();
      await disk.destroy();
    }
    result.answered += testimony.answers.size;
    result.effects += testimony.effects.size;
    result.complaints.push(...testimony.complaints);
  }
  return result;
}

async function cutAndInspect(
  disk: LoopDisk,
  known: ReturnType<Testimony['soFar']>,
): Promise<string[]> {
  const copy = join(disk.folder, 'cut.img');
  const mountPoint = join(disk.folder, 'cut');
  await disk.cutPower(copy);
  const device = await mountImage(copy, mountPoint);
  try {
    return await inspect(join(mountPoint, 'store'), known);
  } finally {
    await unmountImage(device, mountPoint);
    await rm(copy);
  }
}
