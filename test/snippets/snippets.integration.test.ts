import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { type Fence, mayRun, readFences } from './fence.ts';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LOADER = join(ROOT, 'scripts/typescript.mjs');
const RUN_TIMEOUT_MS = 60_000;

const documents = [
  ...readdirSync(ROOT),
  ...readdirSync(join(ROOT, 'docs'), { recursive: true }).map((path) => `docs/${path}`),
].filter((path) => path.endsWith('.md'));
const fences = documents.flatMap((path) =>
  readFences(path, readFileSync(join(ROOT, path), 'utf8')),
);
const typescript = fences.filter((fence) => fence.language === 'ts');
const shell = fences.filter((fence) => fence.language === 'sh' && fence.note === 'run');

// Inside the workspace, so that its packages are found as a reader of the documents would find them.
mkdirSync(join(ROOT, '.snippets'), { recursive: true });
const folder = mkdtempSync(join(ROOT, '.snippets/'));
const scratch = mkdtempSync(join(tmpdir(), 'onceward-snippets-'));

writeFileSync(
  join(folder, 'tsconfig.json'),
  JSON.stringify({ extends: '../../tsconfig.json', include: ['*.ts'], files: [] }),
);
for (const fence of typescript) {
  // Blank lines before it make the compiler name the lines of the document.
  writeFileSync(
    join(folder, fileOf(fence)),
    `${'\n'.repeat(fence.line)}${fence.code}\nexport {};\n`,
  );
}

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  rmSync(scratch, { recursive: true, force: true });
});

function fileOf(fence: Fence): string {
  return `${fence.document.replaceAll('/', '-')}-${fence.line}.ts`;
}

describe('the snippets of the documents', () => {
  it('are written in documents that exist', () => {
    expect(documents).toContain('README.md');
  });

  it('have the right types', async () => {
    if (typescript.length === 0) return;
    const tsc = join(ROOT, 'node_modules/.bin/tsc');
    const { stdout } = await run(process.execPath, [tsc, '-p', folder], { cwd: folder }).catch(
      (failure: { stdout: string }) => failure,
    );
    expect(stdout).toBe('');
  });

  for (const fence of typescript) {
    it(`${fence.document}:${fence.line} ${mayRun(fence) ? 'runs' : 'says why it does not run'}`, async () => {
      if (!mayRun(fence)) return;
      await run(
        process.execPath,
        ['--conditions=onceward-source', '--import', LOADER, join(folder, fileOf(fence))],
        { cwd: scratch, timeout: RUN_TIMEOUT_MS },
      );
    });
  }

  for (const fence of shell) {
    it(`${fence.document}:${fence.line} runs in a shell`, async () => {
      await run('bash', ['-euo', 'pipefail', '-c', fence.code], {
        cwd: ROOT,
        timeout: RUN_TIMEOUT_MS,
      });
    });
  }
});
