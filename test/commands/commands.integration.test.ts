import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A copy of the workspace as a clone has it: nothing installed, nothing built. */
let clone: string;

beforeAll(async () => {
  clone = await mkdtemp(join(tmpdir(), 'onceward-clone-'));
  const notInAClone = new Set(['node_modules', 'dist', '.git', '.data', '.snippets', '.packed']);
  await cp(ROOT, clone, {
    recursive: true,
    filter: (path) => !notInAClone.has(path.split(sep).at(-1) ?? ''),
  });
  await writeFile(
    join(clone, 'probe.ts'),
    "const words: string[] = process.argv.slice(2);\nconsole.log('probe', words.join(' '));\n",
  );
  await writeFile(
    join(clone, 'waits.ts'),
    "process.on('SIGTERM', () => process.exit(7));\n" +
      "console.log('waiting', process.pid);\nsetInterval(() => {}, 1_000);\n",
  );
});

afterAll(() => rm(clone, { recursive: true, force: true }));

function start(args: readonly string[]) {
  const child = spawn(process.execPath, ['scripts/run.mjs', ...args], { cwd: clone });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  const ended = once(child, 'close').then(([code]) => ({ code, output }));
  return { child, ended, output: () => output };
}

async function untilPrinted(run: ReturnType<typeof start>, pattern: RegExp) {
  for (let tries = 0; tries < 600; tries += 1) {
    const match = pattern.exec(run.output());
    if (match !== null) return match;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${pattern} was never printed: ${run.output()}`);
}

describe('a command on a fresh clone', () => {
  it('installs what it needs, once, though two start together', async () => {
    const [first, second] = await Promise.all([
      start(['probe.ts', 'one']).ended,
      start(['probe.ts', 'two', '--flag']).ended,
    ]);
    expect(first).toMatchObject({ code: 0, output: expect.stringContaining('probe one\n') });
    expect(second).toMatchObject({
      code: 0,
      output: expect.stringContaining('probe two --flag\n'),
    });
    const installs = [first, second].filter(({ output }) => output.includes('Installing'));
    expect(installs).toHaveLength(1);
  }, 300_000);

  it('installs nothing the second time', async () => {
    const { code, output } = await start(['probe.ts', 'again']).ended;
    expect({ code, output }).toEqual({ code: 0, output: 'probe again\n' });
  });

  it('passes a signal on and ends with the exit code of its program', async () => {
    const run = start(['waits.ts']);
    const [, pid] = await untilPrinted(run, /waiting (\d+)/);
    run.child.kill('SIGTERM');
    expect(await run.ended).toMatchObject({ code: 7 });
    expect(() => process.kill(Number(pid), 0)).toThrow('ESRCH');
  });

  it('says which file is missing', async () => {
    const { code, output } = await start(['nowhere.ts']).ended;
    expect(code).toBe(1);
    expect(output).toContain('nowhere.ts');
  });
});
