import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../random.ts';
import { RunningProgram } from '../running-program.ts';
import type { Operation } from './operation.ts';
import type { Told } from './told.ts';

/** What rough traffic is sent to. */
export interface Target {
  readonly url: string;
  /** Where the metrics are. */
  readonly adminUrl: string;
  readonly maxBytes: number;
  /** A port beside it that no request may be led to. */
  readonly trapPort: number;
  /** The series that are at nought when nobody asks for anything. */
  readonly settlesToNought: RegExp;
  /** Sockets that it may have open while nobody visits. */
  readonly ownSockets: number;
  isAlive(): boolean;
  /** What is in its log that should not be there, since the last question. */
  faultsInLog(): string[];
  /** Starts on the same data as before. */
  start(): Promise<void>;
  /** Asks it to stop, and says what was wrong with how it did. */
  drain(): Promise<string[]>;
  kill(): Promise<void>;
  /** Stops it and all that goes with it. */
  close(): Promise<void>;
  keyed(random: Random, name: string): Operation;
  plain(random: Random, name: string): Operation;
  /** One that takes `WITNESS_MS`, to be in flight when the target is stopped. */
  witness(name: string): Operation;
  /** Whether the target is working on all of these. */
  hasBegun(operations: readonly Operation[]): Promise<boolean>;
  /** Before a round, so that `judge` knows what is new. */
  mark(): Promise<void>;
  /** What the effects of a round say against it. */
  judge(told: Told): Promise<string[]>;
}

export const DRAIN_SECONDS = 2;
/** Long enough to be caught under way, short enough to be done before a drain's deadline. */
export const WITNESS_MS = 700;
/** A busy machine needs a while to let a process end. */
const EXIT_GRACE_MS = 5_000;

/** Doubts are what rough traffic makes; all other errors are faults. */
const EXPECTED_ERRORS = new Set(['idempotency_in_doubt']);

/** A program that is started, stopped and killed again and again on one data folder. */
export class Lives {
  readonly #args: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  #program: RunningProgram | null = null;
  #readLog = 0;

  constructor(args: readonly string[], env: Readonly<Record<string, string>>) {
    this.#args = args;
    this.#env = env;
  }

  async start(): Promise<RunningProgram> {
    this.#program = new RunningProgram(this.#args, {
      ONCEWARD_LOG_LEVEL: 'warn',
      ONCEWARD_DRAIN_SECONDS: String(DRAIN_SECONDS),
      ...this.#env,
    });
    this.#readLog = 0;
    await this.#program.ready();
    return this.#program;
  }

  isAlive(): boolean {
    const child = this.#program?.child;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  faultsInLog(): string[] {
    const text = this.#program?.stderr ?? '';
    const end = text.lastIndexOf('\n') + 1;
    const lines = text.slice(this.#readLog, end).split('\n');
    this.#readLog = end;
    return lines.filter(isFault).map((line) => `the log says ${line.slice(0, 1_500)}`);
  }

  async drain(): Promise<string[]> {
    const program = this.#program;
    if (program === null) return [];
    program.child.kill('SIGTERM');
    const timely = new AbortController();
    const limitMs = DRAIN_SECONDS * 1_000 + EXIT_GRACE_MS;
    const late = sleep(limitMs, 'late' as const, { signal: timely.signal }).catch(() => 'over');
    const ended = await Promise.race([program.ended, late]);
    timely.abort();
    if (typeof ended !== 'string') {
      // 0: drained; otherwise it says that it cut some off. A signal or a crash is neither.
      return ended.signal === null ? [] : [`SIGTERM ended it with ${ended.signal}`];
    }
    await program.stop('SIGKILL');
    return [`it was still there ${limitMs} ms after SIGTERM`];
  }

  async kill(): Promise<void> {
    if (this.isAlive()) await this.#program?.stop('SIGKILL');
  }
}

function isFault(line: string): boolean {
  if (line === '') return false;
  try {
    const { level, msg } = JSON.parse(line) as { level?: string; msg?: string };
    return (level === 'error' || level === 'fatal') && !EXPECTED_ERRORS.has(msg ?? '');
  } catch {
    // Only what nobody foresaw is written without the logger.
    return true;
  }
}
