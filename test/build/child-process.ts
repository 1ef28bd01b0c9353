import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, whichever that is. One that takes longer than a minute and a half is stopped. */
export async function runToEnd(
  command: string,
  args: readonly string[],
  cwd: string,
  environment: NodeJS.ProcessEnv = {},
): Promise<Ended> {
  const options = { cwd, env: { ...process.env, ...environment }, timeout: 90_000 };
  try {
    return { code: 0, ...(await execute(command, args, options)) };
  } catch (cause) {
    const { code, stdout, stderr } = cause as Ended;
    if (typeof code !== 'number') throw new Error(`${String(cause)}\n${stdout}`, { cause });
    return { code, stdout, stderr };
  }
}

/** The same for a program that has to succeed; when it fails, the error shows what it printed. */
export async function run(
  command: string,
  args: readonly string[],
  cwd = ROOT,
  environment: NodeJS.ProcessEnv = {},
): Promise<string> {
  const { code, stdout, stderr } = await runToEnd(command, args, cwd, environment);
  if (code === 0) return stdout;
  throw new Error(`${command} ${args.join(' ')} ended with ${code}:\n${stdout}\n${stderr}`);
}
