import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from './account.ts';
import type { WorkFolder } from './work-folder.ts';

export interface ServerCommand {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly account: Account | null;
  /** The signal that asks for an orderly end. */
  readonly stopSignal: NodeJS.Signals;
  ready(): Promise<boolean>;
}

/** What every started server can be made to suffer. */
export interface ServerProcess {
  readonly pid: number;
  start(): Promise<void>;
  /** An orderly end; the data stay. */
  stop(): Promise<void>;
  /** kill -9 of the server and all its children; the data stay as they are on disk. */
  kill(): Promise<void>;
  /** Freezes the server with its children: it accepts bytes and answers nothing. */
  pause(): void;
  resume(): void;
  restart(): Promise<void>;
}

const START_LIMIT_MS = 60_000;
const STOP_LIMIT_MS = 20_000;

export function serverProcess(folder: WorkFolder, command: ServerCommand): ServerProcess {
  const pidFile = join(folder.pids, command.name);
  const logFile = join(folder.path, `${command.name}.log`);
  let child: ChildProcess | null = null;

  const running = (): ChildProcess => {
    if (child === null) throw new Error(`${command.name} is not running`);
    return child;
  };
  const ended = async (process: ChildProcess): Promise<void> => {
    const limit = performance.now() + STOP_LIMIT_MS;
    while (process.exitCode === null && process.signalCode === null) {
      if (performance.now() > limit) signalTree(process.pid, 'SIGKILL');
      await sleep(10);
    }
    rmSync(pidFile, { force: true });
    child = null;
  };

  const self: ServerProcess = {
    get pid() {
      return running().pid ?? 0;
    },
    async start() {
      const log = openSync(logFile, 'a');
      const started = spawn(command.program, command.args, {
        cwd: folder.path,
        stdio: ['ignore', log, log],
        detached: true,
        ...(command.account ?? {}),
      });
      closeSync(log);
      started.unref();
      child = started;
      if (started.pid === undefined) throw new Error(`${command.program} could not be started`);
      writeFileSync(pidFile, String(started.pid));
      const limit = performance.now() + START_LIMIT_MS;
      while (!(await command.ready())) {
        if (started.exitCode !== null || performance.now() > limit) {
          throw new Error(`${command.name} did not start:\n${lastLines(logFile)}`);
        }
        await sleep(25);
      }
    },
    async stop() {
      if (child === null) return;
      signalTree(child.pid, 'SIGCONT');
      child.kill(command.stopSignal);
      await ended(child);
    },
    async kill() {
      const target = running();
      signalTree(target.pid, 'SIGKILL');
      await ended(target);
    },
    pause() {
      const { pid } = running();
      signalTree(pid, 'SIGSTOP');
      awaitStopped(pid);
    },
    resume: () => signalTree(running().pid, 'SIGCONT'),
    async restart() {
      await self.stop();
      await self.start();
    },
  };
  return self;
}

function lastLines(file: string): string {
  return readFileSync(file, 'utf8').split('\n').slice(-20).join('\n');
}

/** Signals a process and all below it, parents first. */
function signalTree(root: number | undefined, signal: NodeJS.Signals): void {
  if (root === undefined) return;
  for (const pid of descendants(root)) {
    try {
      process.kill(pid, signal);
    } catch {
      // It ended on its own in the meantime.
    }
  }
}

/** A signal is delivered when its receiver is next scheduled: until then it could still answer. */
function awaitStopped(root: number | undefined): void {
  if (root === undefined) return;
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const limit = performance.now() + 5_000;
  while (descendants(root).some((pid) => !['T', 'Z', undefined].includes(statusOf(pid)?.[0]))) {
    if (performance.now() > limit) throw new Error(`process ${root} does not stop`);
    Atomics.wait(cell, 0, 0, 1);
  }
}

function descendants(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) continue;
    const parent = parentOf(pid);
    if (parent !== null) children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const tree = [root];
  for (let at = 0; at < tree.length; at++) tree.push(...(children.get(tree[at] as number) ?? []));
  return tree;
}

function parentOf(pid: number): number | null {
  const parent = statusOf(pid)?.[1];
  return parent === undefined ? null : Number(parent);
}

/** State, parent and more of a process; `null` when it has ended. */
function statusOf(pid: number): string[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command name stands in parentheses and may itself hold spaces: count from the last one.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null;
  }
}
