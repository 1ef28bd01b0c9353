import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build, type Plugin } from 'esbuild';
import type { Catch } from './hunt.ts';
import type { Edit, Mutant } from './mutant-list.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const HUNT = fileURLToPath(new URL('./hunt.ts', import.meta.url));
/** A bug may well make the program hang; then it has been found, if not by name. */
const TIMEOUT_MS = 300_000;

const run = promisify(execFile);

/** The text with the edits made. Throws when one of them has nothing, or too much, to hold on to. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  return edits.reduce((before, { file, find, replace }) => {
    const pieces = before.split(find);
    if (pieces.length === 2) return pieces.join(replace);
    throw new Error(`${file}: "${find}" is there ${pieces.length - 1} times; it must be once`);
  }, text);
}

/** Builds the simulator with the bug in it and lets it loose. The program itself never holds a bug. */
export async function huntMutant(mutant: Mutant, seeds: number): Promise<Catch> {
  const folder = await mkdtemp(join(tmpdir(), 'onceward-mutant-'));
  try {
    const outfile = join(folder, 'hunt.mjs');
    await build({
      entryPoints: [HUNT],
      outfile,
      bundle: true,
      platform: 'node',
      format: 'esm',
      target: 'node20',
      conditions: ['onceward-source'],
      logLevel: 'error',
      plugins: [infectionOf(mutant)],
    });
    const { stdout } = await run(process.execPath, [outfile, String(seeds)], {
      timeout: TIMEOUT_MS,
    });
    return JSON.parse(stdout) as Catch;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function infectionOf(mutant: Mutant): Plugin {
  return {
    name: 'mutant',
    setup(builder) {
      const infected = new Set<string>();
      builder.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        const edits = mutant.edits.filter(({ file }) => file === relative(ROOT, path));
        if (edits.length === 0) return undefined;
        for (const { file } of edits) infected.add(file);
        return { contents: applyEdits(await readFile(path, 'utf8'), edits), loader: 'ts' };
      });
      builder.onEnd(() => {
        const missed = mutant.edits.find(({ file }) => !infected.has(file));
        if (missed !== undefined) throw new Error(`${missed.file} is no part of the simulator`);
      });
    },
  };
}
