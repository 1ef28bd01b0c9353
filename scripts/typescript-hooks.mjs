import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const CACHE = fileURLToPath(new URL('../node_modules/.cache/typescript/', import.meta.url));

export async function load(url, context, next) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return next(url, context);
  const file = fileURLToPath(url);
  const source = await readFile(file, 'utf8');
  return { format: 'module', source: await withoutTypes(file, source), shortCircuit: true };
}

/** Kept by content, so that the many processes that tests start need not do it again. */
async function withoutTypes(file, source) {
  const name = createHash('sha256').update(`${file}\0${source}`).digest('hex');
  const cached = `${CACHE}${name}.mjs`;
  try {
    return await readFile(cached, 'utf8');
  } catch {
    const code = await transform(file, source);
    await mkdir(CACHE, { recursive: true });
    await writeFile(`${cached}.${process.pid}`, code);
    await rename(`${cached}.${process.pid}`, cached);
    return code;
  }
}

async function transform(sourcefile, source) {
  const { transform: run } = await import('esbuild');
  const { code } = await run(source, {
    sourcefile,
    loader: 'ts',
    format: 'esm',
    target: 'node20',
    sourcemap: 'inline',
  });
  return code;
}
