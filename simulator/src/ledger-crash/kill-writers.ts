import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { inspectLedger } from './inspection.ts';
import { Testimony } from './testimony.ts';
import { LedgerWriter } from './writer-process.ts';

const LIVES_BETWEEN_INSPECTIONS = 10;

export interface LedgerCrashResult {
  readonly crashes: number;
  readonly paid: number;
  readonly wrote: number;
  readonly complaints: readonly string[];
}

/** Kills one writer after another at random moments, all on one ledger, and checks what each ten have left. */
export async function killLedgerWriters(
  kills: number,
  onKill: (count: number) => void = () => {},
): Promise<LedgerCrashResult> {
  const folder = await mkdtemp(join(tmpdir(), 'onceward-ledger-kill-'));
  const directory = join(folder, 'ledger');
  const testimony = new Testimony();
  const complaints: string[] = [];
  let crashes = 0;
  try {
    while (crashes < kills && complaints.length === 0) {
      await liveAndDie(directory, testimony);
      crashes += 1;
      onKill(crashes);
      if (crashes % LIVES_BETWEEN_INSPECTIONS !== 0 && crashes !== kills) continue;
      complaints.push(...(await inspectLedger(directory, testimony)));
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return { crashes, paid: testimony.paid.size, wrote: testimony.wrote.size, complaints };
}

async function liveAndDie(directory: string, testimony: Testimony): Promise<void> {
  const writer = new LedgerWriter(directory, testimony);
  try {
    await writer.opened();
    await pause(Math.random() * 250);
    writer.assertAlive();
  } finally {
    await writer.kill();
  }
}
