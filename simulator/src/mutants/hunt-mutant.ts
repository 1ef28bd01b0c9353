import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { bundle } from '../bundle.ts';
import type { Catch } from './hunt.ts';
import type { Mutant } from './mutant.ts';

const HUNT = fileURLToPath(new URL('./hunt.ts', import.meta.url));
const TIMEOUT_MS = 1_800_000;

const run = promisify(execFile);

/** Builds the simulator with the bug in it and lets it loose. */
export async function huntMutant(mutant: Mutant, seeds: number): Promise<Catch> {
  const folder = await mkdtemp(join(tmpdir(), 'onceward-mutant-'));
  try {
    const script = join(folder, 'hunt.mjs');
    await bundle(HUNT, script, mutant.edits);
    const args = [script, String(seeds), mutant.world ?? 'engine'];
    const { stdout } = await run(process.execPath, args, { timeout: TIMEOUT_MS });
    return JSON.parse(stdout) as Catch;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
