import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

export const APP = fileURLToPath(new URL('.', import.meta.url));
const NEXT = createRequire(import.meta.url).resolve('next/dist/bin/next');

/** Builds the application beside this file for production, with webpack, which can be set to take the sources. */
export async function buildApp(): Promise<void> {
  rmSync(`${APP}dist`, { recursive: true, force: true });
  const build = runNext('build', '--webpack');
  const [code] = (await once(build.child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`next build ended with exit code ${code}:\n${build.said()}`);
}

export interface StartedApp {
  readonly url: string;
  stop(): Promise<void>;
}

/** `next start`, in a process of its own, on a port that it chose. */
export async function startApp(): Promise<StartedApp> {
  const { child, said } = runNext('start', '--port', '0', '--hostname', '127.0.0.1');
  const ended = once(child, 'exit');
  for (let tries = 0; tries < 600; tries += 1) {
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said())?.[0];
    if (url !== undefined && said().includes('Ready in')) {
      return {
        url,
        async stop() {
          child.kill('SIGTERM');
          await ended;
        },
      };
    }
    if (child.exitCode !== null) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  child.kill('SIGKILL');
  throw new Error(`next start is not ready:\n${said()}`);
}

function runNext(...args: string[]): { child: ChildProcess; said: () => string } {
  const child = spawn(process.execPath, [NEXT, ...args], {
    cwd: APP,
    env: { ...process.env, NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (piece: Buffer) => {
      said += piece.toString();
    });
  }
  return { child, said: () => said };
}
