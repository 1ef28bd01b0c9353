import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const START_LIMIT_MS = 240_000;

/** Something that is killed and comes back. */
export interface Victim {
  readonly name: string;
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** The onceward command as a process of its own, at an address that outlives it. */
export class OncewardProcess implements Victim {
  readonly name: string;
  readonly url: string;
  readonly #env: Readonly<Record<string, string>>;
  #child: ChildProcess | null = null;
  #complaints = '';

  readonly #command: readonly string[];
  readonly #healthUrl: string;

  /** `command`: its role. `healthPort`: where its health is served, if not on its own port. */
  constructor(
    name: string,
    port: number,
    env: Readonly<Record<string, string>>,
    command: readonly string[] = ['serve'],
    healthPort = port,
  ) {
    this.name = name;
    this.url = `http://127.0.0.1:${port}`;
    this.#command = command;
    this.#healthUrl = `http://127.0.0.1:${healthPort}/healthz`;
    this.#env = { ...env, PORT: String(port), LEDGER_GRPC_PORT: '0', ONCEWARD_LOG_LEVEL: 'error' };
  }

  /** Like any supervisor: a process that gives up because its store is still dead is started again. */
  async start(): Promise<void> {
    const limit = performance.now() + START_LIMIT_MS;
    let child = this.#spawn();
    while (!(await this.#isUp())) {
      if (performance.now() > limit) {
        await this.kill();
        throw new Error(`${this.name} did not start:\n${this.#complaints}`);
      }
      if (child.exitCode !== null) child = this.#spawn();
      await sleep(50);
    }
  }

  #spawn(): ChildProcess {
    const child = spawn(
      process.execPath,
      [
        '--conditions=onceward-source',
        '--import',
        join(ROOT, 'scripts/typescript.mjs'),
        join(ROOT, 'packages/server/src/cli.ts'),
        ...this.#command,
      ],
      { env: { PATH: process.env.PATH ?? '', ...this.#env }, stdio: ['ignore', 'ignore', 'pipe'] },
    );
    this.#child = child;
    this.#complaints = '';
    child.stderr?.on('data', (chunk) => {
      this.#complaints = `${this.#complaints}${chunk}`.slice(-4_000);
    });
    return child;
  }

  kill(): Promise<void> {
    return this.#end('SIGKILL');
  }

  stop(): Promise<void> {
    return this.#end('SIGTERM');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'close');
    child.kill(signal);
    await ended;
  }

  async #isUp(): Promise<boolean> {
    try {
      return (await fetch(this.#healthUrl, { signal: AbortSignal.timeout(2_000) })).ok;
    } catch {
      return false;
    }
  }
}
