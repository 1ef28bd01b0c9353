import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';

export async function load(url, context, next) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return next(url, context);
  const sourcefile = fileURLToPath(url);
  const { code } = await transform(await readFile(sourcefile, 'utf8'), {
    sourcefile,
    loader: 'ts',
    format: 'esm',
    target: 'node20',
    sourcemap: 'inline',
  });
  return { format: 'module', source: code, shortCircuit: true };
}
