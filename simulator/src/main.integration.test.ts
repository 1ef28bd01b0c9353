import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const run = promisify(execFile);

function simulate(...args: string[]) {
  const command = ['scripts/run.mjs', 'simulator/src/main.ts', ...args];
  return run(process.execPath, command, { cwd: ROOT }).then(
    ({ stdout }) => ({ code: 0, stdout, stderr: '' }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
}

describe('npm run simulate', () => {
  it('shares the seeds out, and says how many it ran, how fast, and what it found', async () => {
    const { code, stdout } = await simulate('--seeds', '101', '--from', '7', '--jobs', '2');
    expect(stdout).toMatch(/^101 seeds in [\d.]+ s: \d+ seeds\/s \(.*\), 0 violations$/m);
    expect(code).toBe(0);
  });

  it('prints the history of one seed', async () => {
    const { stdout } = await simulate('--seed', '3');
    expect(stdout).toMatch(/^seed 3: no violation/);
    expect(stdout).toMatch(/reaches p\dl1/);
  });

  it('runs the world from the device to the effect, and says how to see a seed again', async () => {
    const { code, stdout } = await simulate(
      '--world',
      'end-to-end',
      '--seeds',
      '20',
      '--jobs',
      '2',
    );
    expect(stdout).toMatch(/^20 seeds in [\d.]+ s: .*, 0 violations$/m);
    expect(code).toBe(0);
    const told = await simulate('--world', 'end-to-end', '--seed', '3');
    expect(told.stdout).toContain('npm run simulate -- --world end-to-end --seed 3');
  });

  it('names the argument that is wrong', async () => {
    const { code, stderr } = await simulate('--seeds', '-5x');
    expect(code).toBe(2);
    expect(stderr).toMatch(/--seeds/);
    expect((await simulate('--world', 'moon')).stderr).toMatch(/--world is moon/);
  });
});
