import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

export const CREDENTIAL = {
  ONCEWARD_API_KEY: 'ak_tests',
  ONCEWARD_API_SECRET: 'sk_only-for-tests',
};

/** The headers that go with `CREDENTIAL`. */
export const ADMIN = {
  'x-api-key': CREDENTIAL.ONCEWARD_API_KEY,
  'x-api-secret': CREDENTIAL.ONCEWARD_API_SECRET,
};

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The command as a child process, run from source. */
export class RunningProgram {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  stdout = '';
  stderr = '';

  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const program = [
      '--conditions=onceward-source',
      '--import',
      join(ROOT, 'scripts/typescript.mjs'),
      join(ROOT, 'packages/server/src/cli.ts'),
    ];
    this.child = spawn(process.execPath, [...program, ...args], {
      env: { PATH: process.env.PATH ?? '', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout?.on('data', (chunk) => {
      this.stdout += chunk;
    });
    this.child.stderr?.on('data', (chunk) => {
      this.stderr += chunk;
    });
    this.ended = once(this.child, 'close').then(([code, signal]) => ({
      code,
      signal,
      stdout: this.stdout,
      stderr: this.stderr,
    }));
  }

  async printed(pattern: RegExp): Promise<RegExpExecArray> {
    for (let tries = 0; tries < 1_200; tries += 1) {
      const match = pattern.exec(this.stdout);
      if (match !== null) return match;
      if (this.child.exitCode !== null) break;
      await sleep(25);
    }
    throw new Error(`${pattern} was never printed:\n${this.stdout}\n${this.stderr}`);
  }

  /** The address it says it is ready on. */
  async ready(): Promise<string> {
    return (await this.printed(/^onceward is ready on (\S+)$/m))[1] ?? '';
  }

  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    this.child.kill(signal);
    return this.ended;
  }
}

/** A data folder that goes with the test. */
export function temporaryFolder(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'onceward-server-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** A server of its own on a free port, by default with the credential of the tests. */
export async function startServer(
  env: Readonly<Record<string, string>> = {},
): Promise<{ program: RunningProgram; url: string; data: string; stop(): Promise<Ended> }> {
  const folder = env.ONCEWARD_DATA === undefined ? temporaryFolder() : null;
  const data = folder?.path ?? env.ONCEWARD_DATA ?? '';
  const program = new RunningProgram(['serve'], {
    PORT: '0',
    ONCEWARD_DATA: data,
    ONCEWARD_LOG_LEVEL: 'warn',
    ...CREDENTIAL,
    ...env,
  });
  const url = await program.ready();
  return {
    program,
    url,
    data,
    async stop() {
      const ended = await program.stop();
      folder?.remove();
      return ended;
    },
  };
}

/** Runs a command to its end. */
export function runCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  return new RunningProgram(args, env).ended;
}

export async function postJson(
  url: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
}
