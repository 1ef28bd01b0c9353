import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

it('[U1] npm start on a fresh clone serves the first minute of the README', async () => {
  const clone = await mkdtemp(join(tmpdir(), 'onceward-start-'));
  const notInAClone = new Set(['node_modules', 'dist', '.git', '.data', '.snippets', '.scratch']);
  await cp(ROOT, clone, {
    recursive: true,
    filter: (path) => !notInAClone.has(path.split(sep).at(-1) ?? ''),
  });
  const child = spawn('npm', ['start'], {
    cwd: clone,
    env: { ...process.env, PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk;
    });
  }
  const ended = once(child, 'close');
  let url: string | undefined;
  try {
    for (let tries = 0; url === undefined && child.exitCode === null && tries < 5_000; tries += 1) {
      await sleep(100);
      url = /^onceward is ready on (\S+)$/m.exec(output)?.[1];
    }
    if (url === undefined) throw new Error(`npm start did not get ready:\n${output}`);
    const readme = await readFile(join(clone, 'README.md'), 'utf8');
    const commands = /```sh first-minute\n(.*?)```/s.exec(readme)?.[1] ?? 'false';
    const script = commands.replaceAll('http://127.0.0.1:8080', url);
    const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], { cwd: clone });
    expect(stdout.match(/HTTP\/1\.1 201 Created/g)).toHaveLength(2);
    expect(stdout.match(/idempotency-replayed: (true|false)/g)).toEqual([
      'idempotency-replayed: false',
      'idempotency-replayed: true',
    ]);
    const ids = [...stdout.matchAll(/"order_id":"([^"]+)"/g)].map(([, id]) => id);
    expect(ids).toHaveLength(2);
    expect(ids[0]).toBe(ids[1]);
    expect(stdout).toContain('{"orders":1}');
    expect(output).toMatch(/ONCEWARD_API_KEY=ak_/);
    const help = await run('npx', ['onceward', '--help'], { cwd: clone });
    expect(help.stdout).toContain('Usage: onceward');
    const page = await fetch(`${url}/docs/`);
    expect([page.status, page.headers.get('content-type')]).toEqual([
      200,
      expect.stringContaining('text/html'),
    ]);
  } finally {
    child.kill('SIGTERM');
    await ended;
    await rm(clone, { recursive: true, force: true });
  }
  expect(output).toContain('"draining"');
  await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed');
}, 900_000);
