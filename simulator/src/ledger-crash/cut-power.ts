import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { LoopDisk, mountImage, unmountImage } from '../crash/loop-disk.ts';
import { inspectLedger } from './inspection.ts';
import type { LedgerCrashResult } from './kill-writers.ts';
import { type Said, Testimony } from './testimony.ts';
import { LedgerWriter } from './writer-process.ts';

/** Cuts of one writer's disk before it gets a new one: it goes on writing meanwhile, and the disk is small. */
const CUTS_A_DISK = 4;

/**
 * Cuts the power of a disk that a ledger is being written to, log, state and blocks alike, and opens the ledger on each
 * disk as it was left: what had been acknowledged before the cut began must be on it.
 */
export async function cutLedgerPower(
  cuts: number,
  onCut: (count: number) => void = () => {},
): Promise<LedgerCrashResult> {
  const result = { crashes: 0, paid: 0, wrote: 0, complaints: [] as string[] };
  while (result.crashes < cuts && result.complaints.length === 0) {
    const disk = await LoopDisk.create();
    const testimony = new Testimony();
    let writer: LedgerWriter | null = null;
    try {
      writer = new LedgerWriter(join(disk.mountPoint, 'ledger'), testimony);
      await writer.opened();
      for (let cut = 0; cut < CUTS_A_DISK && result.crashes < cuts; cut += 1) {
        await pause(50 + Math.random() * 400);
        writer.assertAlive();
        result.complaints.push(...(await cutAndInspect(disk, testimony.soFar())));
        result.crashes += 1;
        onCut(result.crashes);
      }
    } finally {
      await writer?.kill();
      await disk.destroy();
    }
    result.paid += testimony.paid.size;
    result.wrote += testimony.wrote.size;
  }
  return result;
}

async function cutAndInspect(disk: LoopDisk, said: Said): Promise<string[]> {
  const copy = join(disk.folder, 'cut.img');
  const mountPoint = join(disk.folder, 'cut');
  await disk.cutPower(copy);
  const device = await mountImage(copy, mountPoint);
  try {
    return await inspectLedger(join(mountPoint, 'ledger'), said);
  } catch (error) {
    return [`the ledger cannot be opened: ${(error as Error).message}`];
  } finally {
    await unmountImage(device, mountPoint);
    await rm(copy);
  }
}
