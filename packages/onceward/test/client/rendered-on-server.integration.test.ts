import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { expect, it, onTestFinished } from 'vitest';

it('[C18] a module that opens an outbox for browsers neither fails on a server nor keeps it alive', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'onceward-rendered-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const outfile = join(folder, 'page.mjs');
  const entry = new URL('rendered-on-server.ts', import.meta.url).pathname;
  await build({ entryPoints: [entry], bundle: true, platform: 'node', format: 'esm', outfile });
  const run = promisify(execFile)(process.execPath, [outfile], { timeout: 20_000 });
  const { stdout, stderr } = await run;
  expect(JSON.parse(stdout)).toMatchObject({ waiting: 0, sending: 0, paused: null });
  expect(stderr).toBe('');
});
