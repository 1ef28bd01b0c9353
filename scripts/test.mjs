// npm test [-- filters…]: the checks, then every test; with filters, only the tests they name. --unit leaves out
// whatever needs a server. The last line is the tally, and the exit code agrees with it.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runChecks } from './check.mjs';
import { runTool } from './child.mjs';
import { ensureInstalled } from './install.mjs';
import { tallyReport } from './tally.mjs';

const args = process.argv.slice(2);
const unitOnly = args.includes('--unit');
const filters = args.filter((arg) => arg !== '--unit');

await ensureInstalled();
const failedChecks = unitOnly || filters.length > 0 ? [] : await runChecks();
const folder = mkdtempSync(join(tmpdir(), 'onceward-test-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

const report = join(folder, 'report.json');
const runnerExit = await runTool('vitest', [
  'run',
  ...(unitOnly ? ['--project', 'unit'] : []),
  '--reporter=default',
  '--reporter=json',
  `--outputFile.json=${report}`,
  ...filters,
]);
const tally = tallyReport({ report: readReport(report), runnerExit, failedChecks });
for (const note of tally.notes) console.log(note);
console.log(tally.line);
process.exitCode = tally.exitCode;

function readReport(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return null;
  }
}
