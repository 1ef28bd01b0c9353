import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');

/** How long a child may take to end after it was asked to, before it is killed. */
const STOP_GRACE_MS = 10_000;

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/**
 * Runs a program to its end with our terminal, and resolves to its exit code. Signals that reach us are passed
 * on to it, by its pid, and once it has ended so do we, so that stopping the script stops all of it. `patient`: it
 * knows itself how long it may take.
 */
export function runChild(command, args, { cwd = ROOT, env = process.env, patient = false } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, stdio: 'inherit' });
    let killTimer;
    let interrupted = false;
    const forward = (signal) => {
      interrupted = true;
      // A terminal has already sent its SIGINT to the whole foreground group; a second one would be read as "at once".
      if (signal === 'SIGINT' && process.stdin.isTTY) return;
      child.kill(signal);
      if (patient) return;
      killTimer ??= setTimeout(() => child.kill('SIGKILL'), STOP_GRACE_MS).unref();
    };
    for (const signal of SIGNALS) process.on(signal, forward);
    const finish = () => {
      clearTimeout(killTimer);
      for (const signal of SIGNALS) process.off(signal, forward);
    };
    child.once('error', (error) => {
      finish();
      reject(error);
    });
    child.once('exit', (code, signal) => {
      finish();
      const exitCode = signal === null ? code : 128 + signalNumber(signal);
      if (interrupted) process.exit(exitCode);
      resolve(exitCode);
    });
  });
}

/** Runs the command-line program of an installed package, such as `vitest`. */
export function runTool(name, args, options) {
  return runChild(process.execPath, [`${ROOT}/node_modules/.bin/${name}`, ...args], options);
}

/** The shell's convention for a program ended by a signal is 128 plus this number. */
function signalNumber(signal) {
  return { SIGHUP: 1, SIGINT: 2, SIGKILL: 9, SIGTERM: 15 }[signal] ?? 1;
}
