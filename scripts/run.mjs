// Runs a TypeScript file of the workspace from source: node scripts/run.mjs FILE [arguments…]
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { ROOT, runChild } from './child.mjs';
import { ensureInstalled } from './install.mjs';

const [file, ...args] = process.argv.slice(2);
if (file === undefined) {
  console.error('Usage: node scripts/run.mjs FILE [arguments…]');
  process.exit(2);
}
const path = resolve(ROOT, file);
if (!existsSync(path)) {
  console.error(`There is no ${file} in this workspace.`);
  process.exit(1);
}
await ensureInstalled();
process.exitCode = await runChild(process.execPath, [
  '--conditions=onceward-source',
  '--enable-source-maps',
  '--import',
  new URL('./typescript.mjs', import.meta.url).href,
  path,
  ...args,
]);
