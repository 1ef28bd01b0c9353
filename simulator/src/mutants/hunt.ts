import { drawPlan } from '../draw-plan.ts';
import { runSeeds } from '../run-worlds.ts';
import { shrink, tellStory } from '../shrink.ts';

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
const { seeds, findings } = await runSeeds({ from: 1, count: most, atMost: 1 });
const found = findings[0];
const told = found === undefined ? null : await shrink(drawPlan(found.seed));
const brought: Catch = {
  seeds,
  seed: found?.seed ?? null,
  rule: found?.violation.rule ?? null,
  events: told?.plan.events.length ?? 0,
  lines: told?.trace.length ?? 0,
  story: told === null ? '' : tellStory(told, 25),
};
console.log(JSON.stringify(brought));
