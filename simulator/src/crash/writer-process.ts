import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import type { Testimony } from './testimony.ts';

const OPENS_WITHIN_MS = 60_000;

/** One life of a writer, from its start to its violent end. */
export class WriterProcess {
  readonly #child: ChildProcess;
  readonly #testimony: Testimony;
  readonly #silence: Promise<void>;
  #error = '';

  constructor(script: string, directory: string, from: number, testimony: Testimony) {
    testimony.beginLife();
    this.#testimony = testimony;
    const args = [script, directory, String(from)];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    child.stderr.on('data', (data: Buffer) => {
      this.#error = `${this.#error}${data.toString()}`.slice(-2_000);
    });
    // The kill may cut the last line short; only what ends in a newline was said.
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
      if (this.#child.exitCode !== null || performance.now() > until) {
        throw new Error(`the writer did not open its store: ${this.#error}`);
      }
      await pause(2);
    }
  }

  /** Fails when the writer ended by itself: it never should. */
  assertAlive(): void {
    if (this.#child.exitCode === null && this.#child.signalCode === null) return;
    throw new Error(`the writer ended by itself: ${this.#error}`);
  }

  /** Kills it, and waits until everything it had said has been heard. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#silence;
  }
}
