import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { bundle } from '../bundle.ts';
import type { Edit } from '../edit.ts';
import { inspect } from './inspection.ts';
import { Testimony } from './testimony.ts';
import { WriterProcess } from './writer-process.ts';

export const WRITER = fileURLToPath(new URL('./writer.ts', import.meta.url));
/** Each life begins with keys that earlier lives have had: some answered, some broken off. */
const ASKED_AGAIN = 150;

export interface CrashOptions {
  readonly onCrash?: (count: number) => void;
  /** Bugs to be put into the writer, to see whether they are found. */
  readonly edits?: readonly Edit[];
}

export interface CrashResult {
  readonly crashes: number;
  readonly answered: number;
  readonly effects: number;
  readonly complaints: readonly string[];
}

/** Kills one writer after another in the midst of its work, all on one store, then asks for everything again. */
export async function killWriters(kills: number, options: CrashOptions = {}): Promise<CrashResult> {
  const folder = await mkdtemp(join(tmpdir(), 'onceward-kill-'));
  const testimony = new Testimony();
  try {
    const script = join(folder, 'writer.mjs');
    const directory = join(folder, 'store');
    await bundle(WRITER, script, options.edits);
    for (let kill = 1; kill <= kills; kill += 1) {
      const from = Math.max(0, testimony.highest - ASKED_AGAIN);
      const writer = new WriterProcess(script, directory, from, testimony);
      try {
        await writer.opened();
        await pause(Math.random() * 300);
        writer.assertAlive();
      } finally {
        await writer.kill();
      }
      options.onCrash?.(kill);
    }
    const found = await inspect(directory, testimony);
    return {
      crashes: kills,
      answered: testimony.answers.size,
      effects: testimony.effects.size,
      complaints: [...testimony.complaints, ...found],
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
