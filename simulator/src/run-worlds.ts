import { drawPlan } from './draw-plan.ts';
import type { Violation } from './judge.ts';
import type { Plan } from './plan.ts';
import { Simulation } from './simulation.ts';

/** Worlds that are moved on in one turn of the event loop. They know nothing of each other. */
const ABREAST = 32;

export interface Finding {
  readonly seed: number;
  readonly violation: Violation;
}

export interface SeedRange {
  readonly from: number;
  readonly count: number;
  /** Every nth seed, for work that is shared out. */
  readonly stride?: number;
  /** Stop after this many findings; the rest of the range is left. */
  readonly atMost?: number;
}

export interface RangeResult {
  readonly seeds: number;
  /** What it cost in processor time; a busy machine makes the clock on the wall a poor judge of speed. */
  readonly cpuMs: number;
  readonly findings: readonly Finding[];
}

/** Runs the world of each seed in the range to its end. */
export async function runSeeds(range: SeedRange): Promise<RangeResult> {
  const { from, count, stride = 1, atMost = Infinity } = range;
  const before = process.cpuUsage();
  const findings: Finding[] = [];
  const open: Simulation[] = [];
  let begun = 0;
  let ended = 0;
  while (ended < count && findings.length < atMost) {
    while (open.length < ABREAST && begun < count) {
      open.push(new Simulation(drawPlan(from + begun * stride), { traced: false }));
      begun += 1;
    }
    await microtasksDone();
    for (let index = open.length - 1; index >= 0; index -= 1) {
      const world = open[index]!;
      if (world.step()) continue;
      open.splice(index, 1);
      ended += 1;
      const { violation, plan } = world;
      if (violation !== null) findings.push({ seed: plan.seed, violation });
    }
  }
  const { user, system } = process.cpuUsage(before);
  const inOrder = findings.toSorted((a, b) => a.seed - b.seed);
  return { seeds: ended, cpuMs: (user + system) / 1_000, findings: inOrder };
}

/** Runs one world to its end, and keeps the story. */
export async function runPlan(plan: Plan): Promise<Simulation> {
  const world = new Simulation(plan, { traced: true });
  do await microtasksDone();
  while (world.step());
  return world;
}

/** Node runs out of microtasks before it turns to the next immediate: what a step set going has come to rest. */
function microtasksDone(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
