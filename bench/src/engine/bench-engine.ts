import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BenchOptions } from '../benches.ts';
import { median, type Report } from '../report.ts';
import { type CycleTarget, measureCycles } from './cycles.ts';
import { benchGrowth } from './growth.ts';
import { benchNearTier } from './near.ts';
import { bareLoop, engineTarget, lmdbTarget, sqliteTarget, walTarget } from './targets.ts';

const IN_FLIGHT = [1, 16, 64, 256];

/** The near tier; reserve + commit against the limit and the alternatives; then memory, restart and growth. */
export async function benchEngine(report: Report, options: BenchOptions): Promise<void> {
  // First: after the others, in the same process, look-ups take about twice as long, and it is not known why.
  benchNearTier(report, options);
  for (const inFlight of IN_FLIGHT) await compareStores(report, inFlight, options);
  await benchGrowth(report, options);
}

const makers: readonly ((folder: string) => CycleTarget | Promise<CycleTarget>)[] = [
  bareLoop,
  walTarget,
  engineTarget,
  sqliteTarget,
  lmdbTarget,
];

async function compareStores(
  report: Report,
  inFlight: number,
  { quick }: BenchOptions,
): Promise<void> {
  const rounds = quick ? 1 : 3;
  const ms = quick ? 700 : 2_000;
  const found = new Map<string, { perSecond: number[]; cpuMicros: number[] }>();
  for (let round = 0; round < rounds; round += 1) {
    for (const make of makers) {
      const folder = await mkdtemp(join(tmpdir(), 'onceward-bench-'));
      const target = await make(folder);
      await measureCycles(target, inFlight, ms / 4);
      const { perSecond, cpuMicros } = await measureCycles(target, inFlight, ms);
      await target.close();
      await rm(folder, { recursive: true });
      const seen = found.get(target.name) ?? { perSecond: [], cpuMicros: [] };
      seen.perSecond.push(perSecond);
      seen.cpuMicros.push(cpuMicros);
      found.set(target.name, seen);
    }
  }
  const rate = (name: string) => median(found.get(name)!.perSecond);
  for (const [name, { cpuMicros }] of found) {
    const label = `${name}, ${inFlight} in flight`;
    const against = 'bare group-commit loop';
    const value = rate(name);
    const ratio = value / rate(against);
    report({ bench: 'engine', case: label, metric: 'cycles/s', value, against, ratio });
    report({ bench: 'engine', case: label, metric: 'µs CPU/cycle', value: median(cpuMicros) });
  }
  for (const against of ['SQLite FULL, group commit', 'LMDB']) {
    const value = rate('wal store');
    const ratio = value / rate(against);
    const label = `wal store, ${inFlight} in flight`;
    report({ bench: 'engine', case: label, metric: 'cycles/s', value, against, ratio });
  }
}
