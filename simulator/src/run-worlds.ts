import { drawPlan } from './engine/draw-plan.ts';
import type { Plan } from './engine/plan.ts';
import { Simulation } from './engine/simulation.ts';

/** Worlds that are moved on in one turn of the event loop. They know nothing of each other. */
const ABREAST = 32;

/** A world that is lived through step by step. */
export interface SeededWorld {
  /** `false`: it has come to its end. */
  step(): boolean;
  readonly violation: { readonly rule: string } | null;
}

/** One way of turning seeds into worlds. */
export interface WorldKind {
  open(seed: number): SeededWorld;
  /** Settles when whatever a step has set going has come to rest. */
  atRest(): Promise<void>;
  /** The story of one seed, without what does not matter to its end. */
  tell(seed: number, lines: number): Promise<Story>;
}

export interface Story {
  readonly events: number;
  readonly lines: number;
  readonly text: string;
}

export interface Finding {
  readonly seed: number;
  readonly violation: { readonly rule: string };
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
export async function runSeeds(
  range: SeedRange,
  kind: Pick<WorldKind, 'open' | 'atRest'> = engineSeeds,
): Promise<RangeResult> {
  const { from, count, stride = 1, atMost = Infinity } = range;
  const before = process.cpuUsage();
  const findings: Finding[] = [];
  const open: { readonly seed: number; readonly world: SeededWorld }[] = [];
  let begun = 0;
  let ended = 0;
  while (ended < count && findings.length < atMost) {
    while (open.length < ABREAST && begun < count) {
      const seed = from + begun * stride;
      open.push({ seed, world: kind.open(seed) });
      begun += 1;
    }
    await kind.atRest();
    for (let index = open.length - 1; index >= 0; index -= 1) {
      const { seed, world } = open[index]!;
      if (world.step()) continue;
      open.splice(index, 1);
      ended += 1;
      const { violation } = world;
      if (violation !== null) findings.push({ seed, violation });
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
export function microtasksDone(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

const engineSeeds = {
  open: (seed: number) => new Simulation(drawPlan(seed), { traced: false }),
  atRest: microtasksDone,
};
