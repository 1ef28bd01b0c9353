// Run in the library's folder after its compiler: the program of SQLite's thread is bundled into the module that
// starts it, as text, so that no bundler of an application has a file to find.
import { writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const FOLDER = 'dist/stores/sqlite';

const bundled = await build({
  entryPoints: [`${FOLDER}/sqlite-worker.js`],
  bundle: true,
  write: false,
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  minify: true,
});

// Where `--input-type=module` is set, text is a module too and has no `require` of its own.
const program = `(() => {
const require = process.getBuiltinModule('module').createRequire(process.execPath);
const module = { exports: {} };
${bundled.outputFiles[0].text}
})();`;

writeFileSync(
  `${FOLDER}/thread-program.js`,
  `export function threadProgram() {\n  return ${JSON.stringify(program)};\n}\n`,
);
