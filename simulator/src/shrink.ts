import type { Plan, PlannedEvent } from './plan.ts';
import { runPlan } from './run-worlds.ts';
import type { Simulation } from './simulation.ts';

/** A shrunk world is run at most this often; what is left then is short enough. */
const MOST_RUNS = 400;

/**
 * Takes events out of a failing plan, halves first and then one by one, for as long as the same promise is broken
 * without them.
 */
export async function shrink(plan: Plan): Promise<Simulation> {
  let best = await runPlan(plan);
  const rule = best.violation?.rule;
  if (rule === undefined) return best;
  let runs = 1;
  const without = async (events: readonly PlannedEvent[]): Promise<boolean> => {
    runs += 1;
    const world = await runPlan({ ...plan, events });
    if (world.violation?.rule !== rule) return false;
    best = world;
    return true;
  };
  for (let size = Math.ceil(best.plan.events.length / 2); size >= 1; size = nextSize(size)) {
    let shorter = true;
    while (shorter && runs < MOST_RUNS) {
      shorter = false;
      for (let from = 0; from < best.plan.events.length && runs < MOST_RUNS; ) {
        const { events } = best.plan;
        const rest = [...events.slice(0, from), ...events.slice(from + size)];
        if (await without(rest)) shorter = true;
        else from += size;
      }
    }
  }
  return best;
}

function nextSize(size: number): number {
  return size === 1 ? 0 : Math.ceil(size / 2);
}

/** The story of a world that broke a promise, its end above all. */
export function tellStory(world: Simulation, lines: number): string {
  const { plan, trace, violation } = world;
  const told = trace.slice(-lines).map(({ at, text }) => `  ${at.toFixed(1).padStart(9)}  ${text}`);
  const left = trace.length - told.length;
  const { effect, policy } = plan.operations[0]!;
  return [
    `seed ${plan.seed}: ${violation?.rule ?? 'no violation'} (${violation?.operation ?? ''})`,
    `  ${plan.events.length} planned events, ${JSON.stringify(effect)}, ${JSON.stringify(policy)}`,
    ...(left > 0 ? [`  … ${left} earlier`] : []),
    ...told,
  ].join('\n');
}
