import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** Takes the order, and crashes before it can answer. */
const SCRIPT = `process.stdout.write('taken', () => process.kill(process.pid, 'SIGKILL'))`;

/** Runs an order in a process of its own that dies half-way. Says whether the order had been taken by then. */
export async function orderThatCrashes(): Promise<boolean> {
  const child = spawn(process.execPath, ['-e', SCRIPT], { stdio: ['ignore', 'pipe', 'ignore'] });
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  await once(child, 'close');
  return output === 'taken';
}
