import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { LoadResult, LoadTask } from './load-child.ts';
import type { ServerKind } from './server-child.ts';

export interface MeasuredServer {
  readonly port: number;
  /** Processor time so far, in microseconds. */
  cpu(): Promise<number>;
  stop(): Promise<void>;
}

export async function startServer(kind: ServerKind): Promise<MeasuredServer> {
  const child = start('./server-child.ts', [kind]);
  const { port } = await answerOf<{ port: number }>(child);
  return { port, cpu: () => cpuOf(child), stop: () => stop(child) };
}

export async function runLoad(task: LoadTask): Promise<LoadResult> {
  const child = start('./load-child.ts', []);
  child.send(task);
  const result = await answerOf<LoadResult>(child);
  await stop(child);
  return result;
}

function start(file: string, args: readonly string[]): ChildProcess {
  return fork(fileURLToPath(new URL(file, import.meta.url)), args, { execArgv: process.execArgv });
}

async function cpuOf(child: ChildProcess): Promise<number> {
  child.send('cpu');
  const { user, system } = await answerOf<NodeJS.CpuUsage>(child);
  return user + system;
}

async function answerOf<T>(child: ChildProcess): Promise<T> {
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`a measured process ended with ${code}`);
  });
  const [message] = await Promise.race([once(child, 'message'), ended]);
  return message as T;
}

async function stop(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
