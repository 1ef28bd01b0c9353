import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build as bundle } from 'esbuild';
import { build as viteBuild } from 'vite';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { run } from './child-process.ts';
import { PackedPackages } from './packed-packages.ts';

/** A service in one file: door, embedded log, and the store that has a thread of its own. */
const SERVICE = `
import { createOnceward } from 'onceward';
import { withIdempotency } from 'onceward/fetch';
import { openSqliteStore } from 'onceward/sqlite';
import { openWalStore } from 'onceward/wal';

async function main() {
  const stores = [
    await openSqliteStore({ path: 'operations.db', driver: 'libsql' }),
    await openWalStore({ directory: 'data' }),
  ];
  for (const store of stores) {
    let orders = 0;
    const handler = withIdempotency(async () => Response.json({ order: ++orders }), {
      store,
      scopeFrom: () => 'shop',
      effect: { kind: 'external', onLapse: 'in_doubt' },
    });
    const request = { method: 'POST', headers: { 'idempotency-key': String(process.pid) } };
    const place = () => handler(new Request('http://localhost/orders', request));
    await place();
    console.log((await place()).headers.get('idempotency-replayed'), orders);
    await store.close();
  }
}
void main();
`;

let packed: PackedPackages;
let project: string;
let entry: string;

beforeAll(async () => {
  packed = await PackedPackages.make('onceward');
  project = await packed.project(['onceward'], ['libsql']);
  entry = join(project, 'service.mjs');
  await writeFile(entry, SERVICE);
});
afterAll(() => packed?.dispose());

const BUNDLERS: Readonly<Record<string, (outfile: string) => Promise<unknown>>> = {
  'esbuild-esm.mjs': (outfile) =>
    bundle({ entryPoints: [entry], outfile, bundle: true, platform: 'node', format: 'esm' }),
  'esbuild-cjs.cjs': (outfile) =>
    bundle({
      entryPoints: [entry],
      outfile,
      bundle: true,
      platform: 'node',
      format: 'cjs',
      // It is what the bundle is for; the library does without.
      logOverride: { 'empty-import-meta': 'silent' },
    }),
  'vite/vite.mjs': () =>
    viteBuild({
      root: project,
      logLevel: 'error',
      ssr: { noExternal: true },
      build: {
        ssr: entry,
        outDir: 'vite',
        rollupOptions: { output: { entryFileNames: 'vite.mjs' } },
      },
    }),
};

it.each(Object.keys(BUNDLERS))('a service works when it is bundled into %s', async (name) => {
  await BUNDLERS[name]?.(join(project, name));
  // From another folder, as a service manager would start it.
  const said = await run(process.execPath, [join(project, name)], packed.folder('onceward'));
  expect(said.trim().split('\n')).toEqual(['true 1', 'true 1']);
});
