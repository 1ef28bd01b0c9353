import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Testimony } from './testimony.ts';

const WRITER = fileURLToPath(new URL('./writer.ts', import.meta.url));
const LOADER = new URL('../../../scripts/typescript.mjs', import.meta.url).href;
const OPENS_WITHIN_MS = 60_000;

/** One life of a writer, from its start to its violent end. */
export class LedgerWriter {
  readonly #child: ChildProcess;
  readonly #testimony: Testimony;
  readonly #silence: Promise<void>;
  #error = '';

  constructor(directory: string, testimony: Testimony) {
    testimony.beginLife();
    this.#testimony = testimony;
    const flags = ['--conditions=onceward-source', '--import', LOADER];
    const args = [...flags, WRITER, directory, String(testimony.resumeAt)];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    child.stderr.on('data', (data: Buffer) => {
      this.#error = `${this.#error}${data.toString()}`.slice(-2_000);
    });
    // The kill may cut the last line short; only what ends in a line feed was said.
    let rest = '';
    child.stdout.on('data', (data: Buffer) => {
      const lines = `${rest}${data.toString()}`.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) testimony.hear(line);
    });
    this.#silence = new Promise((resolve) => child.once('close', () => resolve()));
  }

  async opened(): Promise<void> {
    const until = performance.now() + OPENS_WITHIN_MS;
    while (!this.#testimony.opened) {
      this.assertAlive();
      if (performance.now() > until) {
        throw new Error(`The writer did not open the ledger: ${this.#error}`);
      }
      await pause(2);
    }
  }

  /** Fails when the writer ended by itself: it never should. */
  assertAlive(): void {
    if (this.#child.exitCode === null && this.#child.signalCode === null) return;
    throw new Error(`The writer ended by itself: ${this.#error}`);
  }

  /** Kills it, and waits until everything it had said has been heard. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#silence;
  }
}
