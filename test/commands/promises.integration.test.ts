import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const folder = mkdtempSync(join(tmpdir(), 'onceward-promises-'));
symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
cpSync(join(ROOT, '.oxlintrc.json'), join(folder, '.oxlintrc.json'));
cpSync(join(ROOT, 'tsconfig.base.json'), join(folder, 'tsconfig.base.json'));
writeFileSync(
  join(folder, 'tsconfig.json'),
  '{ "extends": "./tsconfig.base.json", "compilerOptions": { "types": ["node"], "noEmit": true } }',
);
writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** How the promise check ends on `code`, and the lines it complains of. */
function check(code: string) {
  writeFileSync(join(folder, 'planted.config.ts'), code);
  const { stdout, status } = spawnSync(
    process.execPath,
    [join(ROOT, 'node_modules/.bin/oxlint'), '--type-aware', '--format=unix', 'planted.config.ts'],
    { cwd: folder, encoding: 'utf8' },
  );
  const lines = [...stdout.matchAll(/planted\.config\.ts:(\d+):/g)].map((match) =>
    Number(match[1]),
  );
  return { status, lines };
}

it('a floating promise is found, wherever it was made', () => {
  const code = [
    "import { readFile } from 'node:fs/promises';",
    'interface Port { close(): Promise<void>; changed?(): Promise<void> }',
    'export async function near(port: Port) {',
    "  readFile('a');",
    '  port.close();',
    '  port.changed?.();',
    '  [1].forEach(async () => { await port.close(); });',
    '  if (port.close()) return;',
    '}',
  ].join('\n');
  expect(check(code)).toEqual({ status: 1, lines: [4, 5, 6, 7, 8] });
});

it('a promise that is awaited, returned or let go on purpose is not', () => {
  const code = [
    "import { readFile } from 'node:fs/promises';",
    'export async function near(port: { close(): Promise<void> }) {',
    "  await readFile('a');",
    '  void port.close();',
    '  return port.close();',
    '}',
  ].join('\n');
  expect(check(code)).toEqual({ status: 0, lines: [] });
});
