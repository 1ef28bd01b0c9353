import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { describe, expect, it } from 'vitest';

const HERE = new URL('.', import.meta.url).pathname;

/** What a page pays that uses the fetch wrapper and the outbox with its storage. */
const PAGE = `
  import { idempotentFetch, indexedDbStorage, Outbox, replayInfo } from '../index.ts';
  Object.assign(globalThis, { idempotentFetch, indexedDbStorage, Outbox, replayInfo });
`;

async function bundle(contents: string) {
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: HERE, loader: 'ts' },
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    platform: 'browser',
    write: false,
    metafile: true,
  });
  return {
    code: outputFiles[0]?.contents ?? new Uint8Array(),
    inputs: Object.keys(metafile.inputs),
  };
}

describe('browser bundle', () => {
  it('[C12] fetch wrapper and outbox together are at most 13 kB after gzip', async () => {
    const { code, inputs } = await bundle(PAGE);
    const size = gzipSync(code, { level: 9 }).length;
    expect(inputs.length).toBeGreaterThan(20);
    expect(size).toBeLessThanOrEqual(13_000);
    process.stdout.write(`browser bundle: ${size} bytes after gzip\n`);
  });

  it('[C12] nothing of Node is in it, nor any package', async () => {
    // For the platform `browser` the bundler fails on a Node built-in by itself.
    const { inputs } = await bundle(`${PAGE} export * from '../service-worker.ts';`);
    expect(inputs.filter((input) => input.includes('node_modules'))).toEqual([]);
    expect(inputs.filter((input) => /node-|segment-log|\/engine\//.test(input))).toEqual([]);
  });

  it('[C12] [C13] nor in that of the ledger client', async () => {
    const { inputs } = await bundle(`export * from '../ledger.ts';`);
    expect(
      inputs.filter((input) => /node_modules|node-|segment-log|\/engine\//.test(input)),
    ).toEqual([]);
  });
});
