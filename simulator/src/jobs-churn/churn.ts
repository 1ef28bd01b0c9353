import { setImmediate as nextTurn } from 'node:timers/promises';
import { createOnceward, nodeWorld } from 'onceward';
import { builtInTypes, Gate, JobManager, jobWindows, submissionOf } from 'onceward/jobs';
import { memoryStore } from 'onceward/memory';

export interface ChurnOptions {
  readonly keys: number;
  /** Entries that the gate may hold. */
  readonly maxEntries: number;
  readonly onSample?: (sample: Sample) => void;
}

export interface Sample {
  readonly keys: number;
  readonly rssMiB: number;
  readonly pending: number;
  readonly answered: number;
  readonly records: number;
}

const IN_FLIGHT = 256;
const SAMPLES = 50;
const WINDOW_MS = 1_000;

/**
 * Sends ever new keys through one gate to a manager that really takes the jobs in, runs them and forgets them. Windows
 * are short, so that what is alive at any moment stays the same while keys come and go.
 */
export async function churn(options: ChurnOptions): Promise<Sample[]> {
  const world = nodeWorld();
  const engine = createOnceward({
    store: memoryStore(),
    near: { maxEntries: options.maxEntries },
    sweep: { everyMs: 100, batch: 50_000 },
  });
  const windows = {
    ...jobWindows,
    maxEntries: options.maxEntries,
    committedMs: WINDOW_MS,
    rejectedMs: WINDOW_MS,
  };
  const keepEndedMs = WINDOW_MS;
  const manager = new JobManager({
    ...{ engine, world, windows, keepEndedMs },
    types: builtInTypes,
    concurrency: IN_FLIGHT,
  });
  const gate = new Gate({ manager, world, windows });
  const samples: Sample[] = [];
  const every = Math.ceil(options.keys / SAMPLES);
  let sequence = 0;
  const sample = async () => {
    const { pending, committed, rejected } = await engine.count();
    const measured = {
      keys: sequence,
      rssMiB: process.memoryUsage.rss() / 1_048_576,
      pending: gate.size.pending,
      answered: gate.size.answered,
      records: pending + committed + rejected,
    };
    samples.push(measured);
    options.onSample?.(measured);
  };
  const client = async () => {
    while (sequence < options.keys) {
      sequence += 1;
      const due = sequence % every === 0;
      const key = `host1.dc1:12345:${sequence}:a1b2c3d4e5f60718`;
      const asked = submissionOf({ tenant: 'churn', key, type: 'echo', payload: { sequence } });
      const answer = await gate.submit(asked);
      if (answer.status !== 'committed') throw new Error(`${key} was ${JSON.stringify(answer)}`);
      if (due) await sample();
      // A store in memory answers within the turn; timers need one of their own, as they have wherever there is a network.
      await nextTurn();
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, client));
  gate.close();
  await manager.close();
  await engine.close();
  return samples;
}

/** How much more memory the last tenth of the keys saw than the second, when all was warm: the growth by churn alone. */
export function growthOf(samples: readonly Sample[]): number {
  const tenth = Math.floor(samples.length / 10);
  const peak = (from: number, to: number) =>
    Math.max(...samples.slice(from, to).map(({ rssMiB }) => rssMiB));
  return peak(samples.length - tenth, samples.length) / peak(tenth, 3 * tenth);
}
