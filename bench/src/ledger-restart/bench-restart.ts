import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BenchOptions } from '../benches.ts';
import type { Report } from '../report.ts';
import type { Opened } from './ledger-child.ts';

const CHILD = fileURLToPath(new URL('./ledger-child.ts', import.meta.url));
const MIB = 1_048_576;

/** Fills a ledger, kills its process, and opens it in another: how long that takes, and how much disk there is. */
export async function benchRestart(report: Report, { quick }: BenchOptions): Promise<void> {
  const accounts = quick ? 50_000 : 1_000_000;
  const transactions = quick ? 500_000 : 10_000_000;
  const directory = await mkdtemp(join(tmpdir(), 'onceward-bench-restart-'));
  const name = `${count(transactions)} transactions, ${count(accounts)} accounts`;
  const emit = (what: string, metric: string, value: number) =>
    report({ bench: 'ledger-restart', case: what, metric, value });
  try {
    const begun = performance.now();
    const writer = start(directory, accounts, transactions);
    await answerOf<Opened>(writer);
    await answerOf<'filled'>(writer);
    await kill(writer);
    emit(name, 's to fill', (performance.now() - begun) / 1_000);
    for (const folder of ['log', 'state']) {
      emit(`disk: ${folder}`, 'MiB', (await sizeOf(join(directory, folder))) / MIB);
    }
    const reader = start(directory);
    const opened = await answerOf<Opened>(reader);
    await kill(reader);
    emit('opened after kill -9', 'ms', opened.openMs);
    emit('its process, from its start', 'ms', opened.processMs);
    emit('log entries replayed', 'entries', opened.replayedEntries);
    emit('resident memory then', 'MiB', opened.residentBytes / MIB);
    if (opened.rebuiltBecause !== null) throw new Error(`rebuilt: ${opened.rebuiltBecause}`);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function count(number: number): string {
  return number.toLocaleString('en');
}

function start(...args: readonly (string | number)[]): ChildProcess {
  return fork(CHILD, args.map(String), { execArgv: process.execArgv });
}

async function answerOf<T>(child: ChildProcess): Promise<T> {
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the ledger's process ended with ${code}`);
  });
  const [message] = await Promise.race([once(child, 'message'), ended]);
  return message as T;
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

/** What the files take on disk; those of LMDB have holes. */
async function sizeOf(folder: string): Promise<number> {
  let sum = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) sum += (await stat(join(entry.parentPath, entry.name))).blocks * 512;
  }
  return sum;
}
