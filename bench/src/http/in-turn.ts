import type { BenchOptions } from '../benches.ts';
import { median, type Report } from '../report.ts';
import type { LoadTask } from './load-child.ts';
import { type LoadProcess, type MeasuredServer, startLoad } from './processes.ts';
import { startWrk } from './wrk.ts';

export interface Contender {
  readonly name: string;
  readonly keys: LoadTask['keys'];
  start(): Promise<MeasuredServer>;
  /** Something else that its requests use up. */
  readonly meter?: Meter;
}

export interface Meter {
  readonly metric: string;
  /** How much so far. */
  read(): Promise<number>;
}

interface Share {
  readonly perSecond: number;
  readonly cpuMicros: number;
  /** What the meter counted for a request; 0 without one. */
  readonly metered: number;
}

const CONNECTIONS = 64;

/** Who makes the load, and for how long at a time. */
const LOADS = {
  own: { start: startLoad, sliceMs: 500 },
  wrk: { start: startWrk, sliceMs: 1_000 },
} as const;

/** Each against the first of them, with the load in another process; the median of the rounds. */
export async function compareInTurn(
  report: Report,
  bench: string,
  group: readonly Contender[],
  ms: number,
  { quick }: BenchOptions,
  by: keyof typeof LOADS = 'own',
): Promise<void> {
  const samples: Map<Contender, Share>[] = [];
  for (let round = 0; round < (quick ? 1 : 3); round += 1) {
    samples.push(await measureInTurn(group, quick ? 2_000 : ms, by));
  }
  const [bare] = group as [Contender, ...Contender[]];
  for (const one of group) {
    const shares = samples.map((sample) => sample.get(one)!);
    const value = median(shares.map(({ perSecond }) => perSecond));
    const ratio = median(
      samples.map((sample) => sample.get(one)!.perSecond / sample.get(bare)!.perSecond),
    );
    const figure = { bench, case: one.name } as const;
    report({ ...figure, metric: 'requests/s', value, against: bare.name, ratio });
    const cpu = median(shares.map(({ cpuMicros }) => cpuMicros));
    report({ ...figure, metric: 'µs CPU/request', value: cpu });
    if (one.meter === undefined) continue;
    const metered = median(shares.map((share) => share.metered));
    report({ ...figure, metric: one.meter.metric, value: metered });
  }
}

/**
 * How much each server does in `ms` of load, given in slices to one after the other while all of them run. A machine
 * is faster in one second than in the next: only what is measured side by side can be compared.
 */
async function measureInTurn(
  contenders: readonly Contender[],
  ms: number,
  by: keyof typeof LOADS,
): Promise<Map<Contender, Share>> {
  const { start, sliceMs } = LOADS[by];
  const load = start();
  const runs: Run[] = [];
  try {
    for (const contender of contenders) {
      const run = new Run(contender, await contender.start(), load);
      runs.push(run);
      await run.give(ms / 2);
      run.forget();
    }
    for (let spent = 0; spent < ms; spent += sliceMs) {
      for (const run of runs) await run.give(sliceMs);
    }
    return new Map(runs.map((run) => [run.contender, run.share]));
  } finally {
    await load.stop();
    for (const run of runs) await run.server.stop();
  }
}

class Run {
  readonly contender: Contender;
  readonly server: MeasuredServer;
  readonly #load: LoadProcess;
  #requests = 0;
  #seconds = 0;
  #cpuMicros = 0;
  #metered = 0;

  constructor(contender: Contender, server: MeasuredServer, load: LoadProcess) {
    this.contender = contender;
    this.server = server;
    this.#load = load;
  }

  async give(ms: number): Promise<void> {
    const { name, keys, meter } = this.contender;
    const { port } = this.server;
    const meteredBefore = (await meter?.read()) ?? 0;
    const cpuBefore = await this.server.cpu();
    const task = { port, path: '/orders', connections: CONNECTIONS, keys, ms };
    const { requests, seconds, refused, replayed } = await this.#load.run(task);
    this.#cpuMicros += (await this.server.cpu()) - cpuBefore;
    this.#metered += ((await meter?.read()) ?? 0) - meteredBefore;
    this.#requests += requests;
    this.#seconds += seconds;
    if (refused > 0) throw new Error(`${name}: ${refused} of ${requests} were refused`);
    if (replayed === null) return;
    const expected = keys === 'same' ? requests - 1 : 0;
    if (replayed < expected || (expected === 0 && replayed > 0)) {
      throw new Error(`${name}: ${replayed} of ${requests} were replays`);
    }
  }

  forget(): void {
    this.#requests = 0;
    this.#seconds = 0;
    this.#cpuMicros = 0;
    this.#metered = 0;
  }

  get share(): Share {
    return {
      perSecond: this.#requests / this.#seconds,
      cpuMicros: this.#cpuMicros / this.#requests,
      metered: this.#metered / this.#requests,
    };
  }
}
