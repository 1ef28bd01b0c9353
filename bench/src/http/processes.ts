import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

const COMMAND = fileURLToPath(new URL('../../../packages/server/src/cli.ts', import.meta.url));

/** The gateway as users start it, durable, before a bare server of its own. */
export async function startGateway(): Promise<MeasuredServer> {
  const upstream = await startServer('node');
  const data = mkdtempSync(join(tmpdir(), 'onceward-bench-'));
  const url = `http://127.0.0.1:${upstream.port}`;
  const child = spawn(
    process.execPath,
    [...process.execArgv, COMMAND, 'gateway', '--upstream', url],
    {
      env: { ...process.env, ...GATEWAY_SETTINGS, ONCEWARD_DATA: data },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  return {
    port: await portOf(child),
    cpu: async () => usedMicros(child.pid!),
    async stop() {
      await stop(child);
      await upstream.stop();
      rmSync(data, { recursive: true, force: true });
    },
  };
}

const GATEWAY_SETTINGS = {
  PORT: '0',
  ONCEWARD_ADMIN_PORT: '0',
  ONCEWARD_LOG_LEVEL: 'error',
  ONCEWARD_API_KEY: 'ak_bench',
  ONCEWARD_API_SECRET: 'sk_only-for-measuring',
};

async function portOf(child: ChildProcess): Promise<number> {
  let printed = '';
  for await (const chunk of child.stdout!) {
    printed += chunk;
    const ready = /^onceward is ready on http:\S+:(\d+)$/m.exec(printed);
    if (ready !== null) return Number(ready[1]);
  }
  throw new Error(`the gateway ended before it was ready: ${printed}`);
}

/** Processor time of a process that does not report it itself, from clock ticks of 10 ms. */
function usedMicros(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

export interface LoadProcess {
  run(task: LoadTask): Promise<LoadResult>;
  stop(): Promise<void>;
}

export function startLoad(): LoadProcess {
  const child = start(new URL('./load-child.ts', import.meta.url), []);
  return {
    run(task) {
      child.send(task);
      return answerOf<LoadResult>(child);
    },
    stop: () => stop(child),
  };
}

export async function runLoad(task: LoadTask): Promise<LoadResult> {
  const load = startLoad();
  try {
    return await load.run(task);
  } finally {
    await load.stop();
  }
}

/** Where each process puts what it stores; removed when it is stopped. */
const folders = new Map<ChildProcess, string>();

function start(file: URL, args: readonly string[]): ChildProcess {
  const folder = mkdtempSync(join(tmpdir(), 'onceward-bench-'));
  const child = fork(fileURLToPath(file), args, {
    execArgv: process.execArgv,
    env: { ...process.env, TMPDIR: folder },
  });
  folders.set(child, folder);
  return child;
}

async function cpuOf(child: ChildProcess): Promise<number> {
  child.send('cpu');
  const { user, system } = await answerOf<NodeJS.CpuUsage>(child);
  return user + system;
}

async function answerOf<T>(child: ChildProcess): Promise<T> {
  const answered = new AbortController();
  const { signal } = answered;
  try {
    const ended = once(child, 'exit', { signal }).then(([code]) => {
      throw new Error(`a measured process ended with ${code}`);
    });
    const [message] = await Promise.race([once(child, 'message', { signal }), ended]);
    return message as T;
  } finally {
    answered.abort();
  }
}

async function stop(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
  const folder = folders.get(child);
  if (folder === undefined) return;
  folders.delete(child);
  rmSync(folder, { recursive: true, force: true });
}
