// Run in the library's folder after all else was built: every module once more as CommonJS, with its declarations,
// beside a manifest that says which format both are in. The suites are left out: vitest has no CommonJS. So is
// SQLite's thread, which is bundled.
import { cpSync, readdirSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const FROM = 'dist';
const TO = 'dist/cjs';

const files = readdirSync(FROM, { recursive: true }).filter(
  (path) => !/^(cjs|testing)|sqlite-worker/.test(path),
);

await build({
  entryPoints: files.filter((path) => path.endsWith('.js')).map((path) => `${FROM}/${path}`),
  outbase: FROM,
  outdir: TO,
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  // What a module knows its own place by. Callers take a path as well as a URL.
  define: { 'import.meta.url': '__filename' },
});
for (const path of files.filter((path) => path.endsWith('.d.ts'))) {
  cpSync(`${FROM}/${path}`, `${TO}/${path}`);
}
writeFileSync(`${TO}/package.json`, '{ "type": "commonjs", "sideEffects": false }\n');
