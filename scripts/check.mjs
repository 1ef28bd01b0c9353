// Format, lint, types, unused code and the tidy rules: everything that can be said without running the program.
import { pathToFileURL } from 'node:url';
import { runTool } from './child.mjs';
import { ensureInstalled } from './install.mjs';

const colors = process.stdout.isTTY ? 'force' : 'off';

const CHECKS = [
  {
    name: 'format and lint',
    tool: 'biome',
    args: ['ci', `--colors=${colors}`, '--error-on-warnings', '.'],
  },
  { name: 'types', tool: 'tsc', args: ['-b'] },
  // Biome's own inference does not see the types of Node's modules; this one asks the compiler.
  { name: 'promises', tool: 'oxlint', args: ['--type-aware', '--deny-warnings', '.'] },
  { name: 'unused code', tool: 'knip', args: [] },
];

/** Runs every check, so that one report names all that is wrong, and returns the names of those that failed. */
export async function runChecks() {
  const failed = [];
  for (const check of CHECKS) {
    const code = await runTool(check.tool, check.args);
    console.log(`check: ${check.name} ${code === 0 ? 'ok' : 'FAILED'}`);
    if (code !== 0) failed.push(check.name);
  }
  return failed;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await ensureInstalled();
  const failed = await runChecks();
  const tidy = await runTool('vitest', ['run', '--project', 'unit', 'test/tidy/tidy.test.ts']);
  if (tidy !== 0) failed.push('tidy rules');
  if (failed.length > 0) console.error(`\nFailed: ${failed.join(', ')}.`);
  process.exitCode = failed.length === 0 ? 0 : 1;
}
