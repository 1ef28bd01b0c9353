import { runPlan } from '../run-worlds.ts';
import type { Plan, PlannedEvent } from './plan.ts';
import type { Simulation, Told } from './simulation.ts';

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

/** What happened, with the failed calls of a retry loop printed as one. */
export function condensed(trace: readonly Told[]): Told[] {
  const told: Told[] = [];
  let fault: string | null = null;
  for (const { at, text } of trace) {
    const [, ending = null] = /^call \d+ (of \S+: \w+)$/.exec(text) ?? [];
    if (ending === null || ending !== fault) told.push({ at, text });
    else told[told.length - 1] = { at, text: `calls until this one ${ending}` };
    fault = ending;
  }
  return told;
}

/** The story of a world that broke a promise, its end above all. */
export function tellStory({ plan, violation }: Simulation, story: Told[], lines: number): string {
  const told = story.slice(-lines).map(({ at, text }) => `  ${at.toFixed(1).padStart(9)}  ${text}`);
  const left = story.length - told.length;
  const { effect, policy } = plan.operations[0]!;
  return [
    `seed ${plan.seed}: ${violation?.rule ?? 'no violation'} (${violation?.operation ?? ''})`,
    `  ${plan.events.length} planned events, ${JSON.stringify(effect)}, ${JSON.stringify(policy)}`,
    ...(left > 0 ? [`  … ${left} earlier`] : []),
    ...told,
  ].join('\n');
}
