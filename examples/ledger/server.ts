import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const COMMAND = fileURLToPath(new URL('../../packages/server/src/cli.ts', import.meta.url));
const LOADER = new URL('../../scripts/typescript.mjs', import.meta.url).href;

export const CREDENTIAL = { 'x-api-key': 'ak_example', 'x-api-secret': 'sk_example' };

/** `onceward serve` as a process of its own, which can be killed as any other. */
export class LedgerServer {
  readonly #data: string;
  #child: ChildProcess | null = null;
  url = '';

  constructor(data: string) {
    this.#data = data;
  }

  async start(): Promise<void> {
    const args = ['--conditions=onceward-source', '--import', LOADER, COMMAND, 'serve'];
    const child = spawn(process.execPath, args, {
      env: {
        PATH: process.env.PATH ?? '',
        PORT: '0',
        ONCEWARD_DATA: this.#data,
        ONCEWARD_API_KEY: CREDENTIAL['x-api-key'],
        ONCEWARD_API_SECRET: CREDENTIAL['x-api-secret'],
        ONCEWARD_LOG_LEVEL: 'warn',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child = child;
    let output = '';
    for await (const chunk of child.stdout) {
      output += chunk;
      const ready = /^onceward is ready on (\S+)$/m.exec(output)?.[1];
      if (ready === undefined) continue;
      this.url = ready;
      break;
    }
    if (this.url === '') throw new Error('the server did not start');
  }

  async stop(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#child;
    if (child === null || child.exitCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }
}
