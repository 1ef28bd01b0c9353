import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { ROOT } from './child-process.ts';
import { locateRuntime } from './other-runtimes.ts';

const execute = promisify(execFile);
const folder = await mkdtemp(join(tmpdir(), 'onceward-drivers-'));
afterAll(() => rm(folder, { recursive: true }));

const LIMIT_MS = 600_000;
const BETTER_SQLITE3 = 'better-sqlite3@12.11.1';

/** Installed when this test first runs: it may have to be compiled. `null` where that cannot be done. */
async function locateBetterSqlite(): Promise<string | null> {
  const home = join(
    ROOT,
    'node_modules/.cache/onceward-drivers',
    `${BETTER_SQLITE3}-${process.version}`,
  );
  const modules = join(home, 'node_modules');
  if (existsSync(modules)) return modules;
  const made = `${home}.${process.pid}`;
  await mkdir(made, { recursive: true });
  await writeFile(join(made, 'package.json'), '{ "private": true }\n');
  const args = ['install', '--no-audit', '--no-fund', BETTER_SQLITE3];
  try {
    await execute('npm', args, { cwd: made, timeout: LIMIT_MS });
  } catch {
    await rm(made, { recursive: true, force: true });
    return null;
  }
  await rename(made, home);
  return modules;
}

const betterSqlite = await locateBetterSqlite();
const WAYS = [
  {
    name: 'better-sqlite3 on this Node',
    driver: 'better-sqlite3',
    program: betterSqlite === null ? null : process.execPath,
    environment: { NODE_PATH: betterSqlite ?? '' },
  },
  ...(['node 22', 'node 24'] as const).map((name) => ({
    name: `node:sqlite on ${name}`,
    driver: 'node:sqlite',
    runtime: name,
    program: null,
    environment: {},
  })),
];

/** The files that use SQLite; of those that use other stores too, the tests that name it. */
const SUITES = [
  ['packages/onceward/src/stores/sqlite/'],
  ['packages/onceward/test/stores/sqlite-sharing'],
  ['packages/onceward/test/stores/sqlite-pairs'],
  ['packages/onceward/test/stores/nested-transactions', '-t', 'SQLite'],
  ['packages/onceward/test/stores/transactions.integration', '-t', 'sqlite'],
  ['packages/onceward/test/stores/processes.integration', '-t', 'sqlite'],
];

interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

async function runSuite(
  program: string,
  suite: readonly string[],
  environment: NodeJS.ProcessEnv,
): Promise<Report> {
  const file = join(folder, `${Math.random()}.json`);
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const args = [
    vitest,
    'run',
    '--project',
    'integration',
    '--reporter=json',
    `--outputFile=${file}`,
  ];
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('VITEST'));
  const env = { ...Object.fromEntries(inherited), ...environment };
  await execute(program, [...args, ...suite], { cwd: ROOT, env, timeout: LIMIT_MS }).catch(
    () => {},
  );
  return JSON.parse(await readFile(file, 'utf8')) as Report;
}

describe.each(WAYS)('the suites of SQLite through $name', (way) => {
  it.for(SUITES.map((suite) => [suite.join(' '), suite] as const))(
    '[E1] [E7] pass: %s',
    { timeout: LIMIT_MS },
    async ([, suite], { skip }) => {
      const program = 'runtime' in way ? await locateRuntime(way.runtime) : way.program;
      // Where npm cannot bring the runtime, or the driver cannot be compiled, there is nothing to try.
      if (program === null) skip('it cannot be had here');
      const environment = { ...way.environment, ONCEWARD_TEST_SQLITE: way.driver };
      const report = await runSuite(program as string, suite, environment);
      const results = report.testResults.flatMap(({ assertionResults }) => assertionResults);
      const failed = results.filter(({ status }) => status === 'failed');
      expect(failed.map(({ fullName }) => fullName)).toEqual([]);
      expect(report.numPassedTests).toBeGreaterThan(0);
    },
  );
});
