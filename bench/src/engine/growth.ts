import { fork } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BenchOptions } from '../benches.ts';
import { median, type Report } from '../report.ts';
import type { GrowthFigures, GrowthTask } from './growth-child.ts';

const CHILD = fileURLToPath(new URL('./growth-child.ts', import.meta.url));

/** A store with few and with many live records, each in a process of its own. */
export async function benchGrowth(report: Report, { quick }: BenchOptions): Promise<void> {
  const sizes = quick ? [10_000, 100_000] : [10_000, 1_000_000];
  const [few, many] = sizes as [number, number];
  const rounds = quick ? 1 : 3;
  const cpu = new Map<number, number[]>();
  for (const records of sizes) {
    const folder = await mkdtemp(join(tmpdir(), 'onceward-bench-'));
    const name = `wal store, ${records.toLocaleString('en')} live records`;
    const filled = await runChild({ folder, records, fill: true });
    report({
      bench: 'engine',
      case: name,
      metric: 'B memory/record',
      value: filled.bytesPerRecord,
    });
    const figures: GrowthFigures[] = [];
    for (let round = 0; round < rounds; round += 1) {
      figures.push(await runChild({ folder, records, fill: false }));
    }
    await rm(folder, { recursive: true });
    const restartMs = median(figures.map((figure) => figure.openMs));
    report({ bench: 'engine', case: name, metric: 'ms restart', value: restartMs });
    const afterRestart = median(figures.map((figure) => figure.bytesPerRecord));
    report({
      bench: 'engine',
      case: `${name}, reopened`,
      metric: 'B memory/record',
      value: afterRestart,
    });
    cpu.set(
      records,
      figures.map((figure) => figure.cpuMicros),
    );
    const micros = median(cpu.get(records)!);
    report({ bench: 'engine', case: name, metric: 'µs CPU/cycle', value: micros });
  }
  const value = median(cpu.get(many)!);
  const against = `${few.toLocaleString('en')} live records`;
  const ratio = value / median(cpu.get(few)!);
  const grown = `wal store, ${many.toLocaleString('en')} live records`;
  report({ bench: 'engine', case: grown, metric: 'µs CPU/cycle', value, against, ratio });
}

function runChild(task: GrowthTask): Promise<GrowthFigures> {
  return new Promise((resolve, reject) => {
    const child = fork(CHILD, [JSON.stringify(task)], {
      execArgv: ['--expose-gc', ...process.execArgv],
    });
    child.once('message', (figures) => resolve(figures as GrowthFigures));
    child.once('exit', (code) => reject(new Error(`the growth run ended with ${code}`)));
  });
}
