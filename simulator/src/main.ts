import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type RangeResult, runSeeds } from './run-worlds.ts';
import { WORLDS, type WorldName } from './worlds.ts';

const STORY_LINES = 40;

const USAGE = `Usage: npm run simulate -- [--seeds N] [--from S] [--jobs J] [--world engine|end-to-end]
       npm run simulate -- --seed S [--world …]     prints the history of one seed`;

interface Settings {
  readonly seeds: number;
  readonly from: number;
  readonly jobs: number;
  readonly stride: number;
  readonly seed: number | null;
  readonly world: WorldName;
}

function readSettings(): Settings {
  const number = { type: 'string' } as const;
  const { values } = parseArgs({
    options: {
      seeds: number,
      from: number,
      jobs: number,
      stride: number,
      seed: number,
      world: { type: 'string', default: 'engine' },
    },
  });
  const { world } = values;
  if (!Object.hasOwn(WORLDS, world)) {
    throw new RangeError(
      `--world is ${world}; it must be one of ${Object.keys(WORLDS).join(', ')}`,
    );
  }
  const read = (
    name: Exclude<keyof typeof values, 'world'>,
    least: number,
    otherwise: number,
  ): number => {
    const given = values[name];
    if (given === undefined) return otherwise;
    const value = Number(given);
    if (Number.isSafeInteger(value) && value >= least) return value;
    throw new RangeError(`--${name} is ${given}; it must be a whole number from ${least}`);
  };
  return {
    seeds: read('seeds', 1, 10_000),
    from: read('from', 0, 1),
    jobs: read('jobs', 1, 1),
    stride: read('stride', 1, 1),
    seed: values.seed === undefined ? null : read('seed', 0, 0),
    world: world as WorldName,
  };
}

/** Shares the seeds out over processes, each with every nth of them. */
async function runShared({ seeds, from, jobs, world }: Settings): Promise<RangeResult> {
  const shares = Array.from({ length: jobs }, (_, job) => {
    const count = Math.floor((seeds - job + jobs - 1) / jobs);
    const share = ['--seeds', count, '--from', from + job, '--stride', jobs, '--world', world];
    const args = share.map(String);
    return new Promise<RangeResult>((resolve, reject) => {
      const child = fork(fileURLToPath(import.meta.url), args);
      child.once('message', (result) => resolve(result as RangeResult));
      child.once('error', reject);
      child.once('exit', (code) => {
        reject(new Error(`a simulating process ended with exit code ${code}`));
      });
    });
  });
  const results = await Promise.all(shares);
  return {
    seeds: results.reduce((sum, result) => sum + result.seeds, 0),
    cpuMs: results.reduce((sum, result) => sum + result.cpuMs, 0),
    findings: results.flatMap(({ findings }) => findings).toSorted((a, b) => a.seed - b.seed),
  };
}

async function main(settings: Settings): Promise<number> {
  const kind = WORLDS[settings.world];
  if (settings.seed !== null) {
    console.log((await kind.tell(settings.seed, Infinity)).text);
    return 0;
  }
  const began = performance.now();
  const result =
    settings.jobs > 1
      ? await runShared(settings)
      : await runSeeds({ ...settings, count: settings.seeds }, kind);
  if (process.send !== undefined) {
    process.send(result);
    return 0;
  }
  const { seeds, cpuMs, findings } = result;
  const seconds = (performance.now() - began) / 1_000;
  for (const { seed } of findings.slice(0, 3)) {
    console.log((await kind.tell(seed, STORY_LINES)).text);
  }
  if (findings.length > 3) {
    console.log(
      `more: ${findings
        .slice(3, 50)
        .map(({ seed }) => seed)
        .join(' ')}`,
    );
  }
  console.log(
    `${seeds} seeds in ${seconds.toFixed(1)} s: ${Math.round(seeds / seconds)} seeds/s ` +
      `(${Math.round((seeds / cpuMs) * 1_000)} a second of processor time), ` +
      `${findings.length} violations`,
  );
  return findings.length === 0 ? 0 : 1;
}

try {
  process.exitCode = await main(readSettings());
} catch (error) {
  if (!(error instanceof RangeError || error instanceof TypeError)) throw error;
  console.error(`${error.message}\n${USAGE}`);
  process.exitCode = 2;
}
