import { runSeeds } from '../run-worlds.ts';
import { WORLDS, type WorldName } from '../worlds.ts';

/** What a hunt through the seeds brought home, as one line of JSON on standard output. */
export interface Catch {
  readonly seeds: number;
  readonly seed: number | null;
  readonly rule: string | null;
  readonly events: number;
  readonly lines: number;
  readonly story: string;
}

const most = Number(process.argv[2]);
const kind = WORLDS[process.argv[3] as WorldName];
const { seeds, findings } = await runSeeds({ from: 1, count: most, atMost: 1 }, kind);
const found = findings[0];
const told = found === undefined ? null : await kind.tell(found.seed, 25);
const brought: Catch = {
  seeds,
  seed: found?.seed ?? null,
  rule: found?.violation.rule ?? null,
  events: told?.events ?? 0,
  lines: told?.lines ?? 0,
  story: told?.text ?? '',
};
console.log(JSON.stringify(brought));
