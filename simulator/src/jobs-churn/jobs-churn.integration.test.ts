import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const run = promisify(execFile);
const command = fileURLToPath(new URL('../jobs-churn.ts', import.meta.url));
const loader = new URL('../../../scripts/typescript.mjs', import.meta.url).href;

/**
 * The short form of `npm run churn:jobs`, in a process of its own: memory is what is measured. With fewer keys the
 * collector would not have gone through all of it once.
 */
it('[J9] memory stays flat while 600,000 keys pass through one gate', async () => {
  const { stdout } = await run(process.execPath, [
    ...['--conditions=onceward-source', '--import', loader],
    ...[command, '--keys', '600000', '--max-entries', '5000'],
  ]);
  const growth = Number(/growth ([\d.]+)/.exec(stdout)?.[1]);
  expect(growth, stdout).toBeLessThan(1.25);
  const answered = [...stdout.matchAll(/(\d+) answered/g)].map(([, count]) => Number(count));
  expect(Math.max(...answered)).toBeLessThanOrEqual(5_000);
}, 300_000);
