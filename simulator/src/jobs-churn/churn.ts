import { setImmediate as nextTurn } from 'node:timers/promises';
import { createOnceward, nodeWorld } from 'onceward';
import {
  builtInTypes,
  Gate,
  JobManager,
  type JobsPort,
  type JobWindows,
  jobWindows,
  submissionOf,
} from 'onceward/jobs';
import { memoryStore } from 'onceward/memory';

export interface ChurnOptions {
  readonly keys: number;
  /** Entries that the gate may hold. */
  readonly maxEntries: number;
  /** The gate without a manager: every submission is answered at once. Ten times as fast. */
  readonly alone: boolean;
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
const world = nodeWorld();

/** What stands behind the gate, and how much of it there is. */
interface Behind {
  readonly manager: JobsPort;
  count(): Promise<number>;
  close(): Promise<void>;
}

/**
 * Sends ever new keys through one gate. Windows are short, so that what is alive at any moment stays the same while
 * keys come and go.
 */
export async function churn(options: ChurnOptions): Promise<Sample[]> {
  const windows = {
    ...jobWindows,
    maxEntries: options.maxEntries,
    committedMs: WINDOW_MS,
    rejectedMs: WINDOW_MS,
  };
  const behind = options.alone ? nobody() : startManager(windows);
  const gate = new Gate({ manager: behind.manager, world, windows });
  const samples: Sample[] = [];
  const every = Math.ceil(options.keys / SAMPLES);
  let sequence = 0;
  const sample = async () => {
    const measured = {
      keys: sequence,
      rssMiB: process.memoryUsage.rss() / 1_048_576,
      pending: gate.size.pending,
      answered: gate.size.answered,
      records: await behind.count(),
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
      // What answers from memory answers within the turn; timers need one of their own, as they have with a network.
      await nextTurn();
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, client));
  gate.close();
  await behind.close();
  return samples;
}

/** A manager that takes the jobs in, runs them and forgets them. */
function startManager(windows: JobWindows): Behind {
  const engine = createOnceward({
    store: memoryStore(),
    near: { maxEntries: windows.maxEntries },
    sweep: { everyMs: 100, batch: 50_000 },
  });
  const manager = new JobManager({
    ...{ engine, world, windows, types: builtInTypes },
    keepEndedMs: WINDOW_MS,
    concurrency: IN_FLIGHT,
  });
  return {
    manager,
    async count() {
      const { pending, committed, rejected } = await engine.count();
      return pending + committed + rejected;
    },
    async close() {
      await manager.close();
      await engine.close();
    },
  };
}

function nobody(): Behind {
  let jobs = 0;
  return {
    manager: {
      async submit() {
        jobs += 1;
        return { status: 'committed', jobId: `job ${jobs}`, wasDuplicate: false, keepMs: 300_000 };
      },
      find: async () => null,
      list: async () => ({ jobs: [], complete: true }),
      cancel: async () => 'unknown',
    },
    count: async () => 0,
    close: async () => {},
  };
}

/** How much more memory the last tenth of the keys saw than the second and third, when all was warm. */
export function growthOf(samples: readonly Sample[]): number {
  const tenth = Math.floor(samples.length / 10);
  const peak = (from: number, to: number) =>
    Math.max(...samples.slice(from, to).map(({ rssMiB }) => rssMiB));
  return peak(samples.length - tenth, samples.length) / peak(tenth, 3 * tenth);
}
