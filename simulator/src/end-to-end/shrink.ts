import { microtasksDone } from '../run-worlds.ts';
import { EndToEndWorld } from './end-to-end-world.ts';
import type { EndToEndPlan } from './plan.ts';

/** A failing world is run at most this often with less in it; what is left then is short enough. */
const MOST_RUNS = 200;

/** Runs one world to its end, and keeps its trace. */
export async function runEndToEnd(plan: EndToEndPlan): Promise<EndToEndWorld> {
  const world = new EndToEndWorld(plan, { traced: true });
  do await atRest();
  while (world.step());
  return world;
}

/**
 * Microtasks run dry before each immediate. The guard lets a request wait for the end of its turn, which is an
 * immediate too: it has passed before the second one here.
 */
export async function atRest(): Promise<void> {
  await microtasksDone();
  await microtasksDone();
}

/** Takes out of a failing plan whatever it fails without, as long as the same promise is broken. */
export async function shrinkEndToEnd(plan: EndToEndPlan): Promise<EndToEndWorld> {
  let best = await runEndToEnd(plan);
  const rule = best.violation?.rule;
  if (rule === undefined) return best;
  let runs = 1;
  const improve = async (candidates: (plan: EndToEndPlan) => Iterable<EndToEndPlan>) => {
    let found = true;
    while (found) {
      found = false;
      for (const candidate of candidates(best.plan)) {
        if (runs >= MOST_RUNS) return;
        runs += 1;
        const world = await runEndToEnd(candidate);
        if (world.violation?.rule !== rule) continue;
        best = world;
        found = true;
        break;
      }
    }
  };
  await improve(withFewerEvents);
  await improve(withFewerIntentions);
  await improve(withFewerFaults);
  return best;
}

function* withFewerEvents(plan: EndToEndPlan): Iterable<EndToEndPlan> {
  const { events } = plan;
  for (let size = events.length; size >= 1; size = Math.floor(size / 2)) {
    for (let from = 0; from < events.length; from += size) {
      yield { ...plan, events: events.toSpliced(from, size) };
    }
  }
}

function* withFewerIntentions(plan: EndToEndPlan): Iterable<EndToEndPlan> {
  for (const left of plan.intentions) {
    yield { ...plan, intentions: plan.intentions.filter((other) => other !== left) };
  }
}

function* withFewerFaults(plan: EndToEndPlan): Iterable<EndToEndPlan> {
  for (const [name, rate] of Object.entries(plan.rates)) {
    if (rate > 0) yield { ...plan, rates: { ...plan.rates, [name]: 0 } };
  }
}

/** The story of a world, its end above all, and how to see it again. */
export function tellEndToEnd(world: EndToEndWorld, lines: number): string {
  const { plan, trace, violation } = world;
  const told = trace.slice(-lines).map(({ at, text }) => `  ${String(at).padStart(9)}  ${text}`);
  const left = trace.length - told.length;
  const faults = Object.entries(plan.rates).filter(([, rate]) => rate > 0);
  return [
    `seed ${plan.seed}: ${violation?.rule ?? 'no violation'}`,
    `  again: npm run simulate -- --world end-to-end --seed ${plan.seed}`,
    `  profile ${plan.profile}; faults: ${faults.map(([name]) => name).join(', ') || 'none'}`,
    ...(left > 0 ? [`  … ${left} earlier`] : []),
    ...told,
  ].join('\n');
}
