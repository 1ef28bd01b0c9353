import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';

const LOADER = new URL('../../../../scripts/typescript.mjs', import.meta.url).href;
const SCRIPT = fileURLToPath(new URL('./waiting-script.fixture.ts', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'onceward-script-'));
afterAll(() => rmSync(folder, { recursive: true }));

function start() {
  const args = ['--conditions=onceward-source', '--import', LOADER, SCRIPT];
  const child = spawn(process.execPath, [...args, join(folder, 'file.sqlite'), '1500'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  const begun = new Promise<void>((resolve) => {
    child.stdout.on('data', (chunk) => {
      printed += chunk;
      resolve();
    });
  });
  const ended = new Promise<{ code: number | null; printed: string }>((resolve) => {
    child.on('close', (code) => resolve({ code, printed }));
  });
  return { begun, ended };
}

it('[E1] a script that waits for another process lives until it has the answer', async () => {
  const first = start();
  await first.begun;
  const second = start();
  expect(await first.ended).toEqual({ code: 0, printed: 'runs\ndone\n' });
  expect(await second.ended).toEqual({ code: 0, printed: 'done\n' });
});
