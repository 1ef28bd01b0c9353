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

export function startServer(kind: ServerKind): Promise<MeasuredServer> {
  return startChild(new URL('./server-child.ts', import.meta.url), [kind]);
}

/** A process that sends its port when it is ready, and its processor time when it is asked. */
export async function startChild(file: URL, args: readonly string[]): Promise<MeasuredServer> {
  const child = start(file, args);
  const { port } = await answerOf<{ port: number }>(child);
  return { port, cpu: () => cpuOf(child), stop: () => stop(child) };
}

export async function runLoad(task: LoadTask): Promise<LoadResult> {
  const child = start(new URL('./load-child.ts', import.meta.url), []);
  child.send(task);
  const result = await answerOf<LoadResult>(child);
  await stop(child);
  return result;
}

function start(file: URL, args: readonly string[]): ChildProcess {
  return fork(fileURLToPath(file), args, { execArgv: process.execArgv });
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
