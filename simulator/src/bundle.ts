import { readFile } from 'node:fs/promises';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { applyEdits, type Edit } from './edit.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/**
 * One file of JavaScript that holds an entry and all it needs: it starts at once. The edits are made in the copy
 * alone, so that a bug can be tried out without the program ever holding one.
 */
export async function bundle(
  entry: string,
  outfile: string,
  edits: readonly Edit[] = [],
): Promise<void> {
  await build({
    entryPoints: [entry],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    conditions: ['onceward-source'],
    logLevel: 'error',
    plugins: [editing(edits), leftOutside],
  });
}

/** Has native code, or asks for its parts while it runs: found where it is installed. */
const leftOutside: Plugin = {
  name: 'left outside',
  setup(builder) {
    builder.onResolve({ filter: /^(lmdb|undici)$/ }, ({ path }) => ({
      path: fileURLToPath(import.meta.resolve(path)),
      external: true,
    }));
  },
};

function editing(edits: readonly Edit[]): Plugin {
  return {
    name: 'edits',
    setup(builder) {
      const edited = new Set<string>();
      builder.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        const here = edits.filter(({ file }) => file === relative(ROOT, path));
        if (here.length === 0) return undefined;
        for (const { file } of here) edited.add(file);
        return { contents: applyEdits(await readFile(path, 'utf8'), here), loader: 'ts' };
      });
      builder.onEnd(() => {
        const missed = edits.find(({ file }) => !edited.has(file));
        if (missed !== undefined) throw new Error(`${missed.file} is no part of what is built`);
      });
    },
  };
}
