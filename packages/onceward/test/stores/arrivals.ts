import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ArrivalOrder, ArrivalReport } from './arrival-process.ts';
import type { StoreAddress } from './store-address.ts';

const LOADER = new URL('../../../../scripts/typescript.mjs', import.meta.url).href;

/** A process that sends arrivals on command. */
export interface Arrivals {
  readonly pid: number;
  send(order: ArrivalOrder): Promise<ArrivalReport>;
  kill(): Promise<void>;
  pause(): void;
  resume(): void;
}

export async function startArrivals(address: StoreAddress): Promise<Arrivals> {
  const child = startChild('./arrival-process.ts', [JSON.stringify(address)]);
  await once(child, 'message');
  return {
    pid: child.pid as number,
    async send(order) {
      child.send(order);
      const [report] = (await once(child, 'message')) as [ArrivalReport];
      return report;
    },
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
    pause: () => child.kill('SIGSTOP'),
    resume: () => child.kill('SIGCONT'),
  };
}

export function startChild(file: string, args: readonly string[]): ChildProcess {
  return fork(new URL(file, import.meta.url), args, {
    execArgv: ['--conditions=onceward-source', '--import', LOADER],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

/** One line per run of the effect: process, attempt, fence. */
export function runsIn(effectFile: string): { attempt: number; fence: number }[] {
  let text = '';
  try {
    text = readFileSync(effectFile, 'utf8');
  } catch {
    // No effect has run yet.
  }
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split(' '))
    .map(([, attempt, fence]) => ({ attempt: Number(attempt), fence: Number(fence) }));
}

export async function untilRuns(effectFile: string, count: number): Promise<void> {
  const giveUpAt = performance.now() + 30_000;
  while (runsIn(effectFile).length < count) {
    if (performance.now() > giveUpAt) throw new Error(`the effect did not run ${count} times`);
    await sleep(20);
  }
}
