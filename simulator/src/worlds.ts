import { drawEndToEnd } from './end-to-end/draw-plan.ts';
import { EndToEndWorld } from './end-to-end/end-to-end-world.ts';
import { atRest, shrinkEndToEnd, tellEndToEnd } from './end-to-end/shrink.ts';
import { drawPlan } from './engine/draw-plan.ts';
import { condensed, shrink, tellStory } from './engine/shrink.ts';
import { Simulation } from './engine/simulation.ts';
import { microtasksDone, type WorldKind } from './run-worlds.ts';

export type WorldName = 'engine' | 'end-to-end';

/** The engine alone on a store that fails, and the whole way from a device to an effect. */
export const WORLDS: Readonly<Record<WorldName, WorldKind>> = {
  engine: {
    open: (seed) => new Simulation(drawPlan(seed), { traced: false }),
    atRest: microtasksDone,
    async tell(seed, lines) {
      const world = await shrink(drawPlan(seed));
      const events = world.plan.events.length;
      const story = condensed(world.trace);
      return { events, lines: story.length, text: tellStory(world, story, lines) };
    },
  },
  'end-to-end': {
    open: (seed) => new EndToEndWorld(drawEndToEnd(seed), { traced: false }),
    atRest,
    async tell(seed, lines) {
      const world = await shrinkEndToEnd(drawEndToEnd(seed));
      const events = world.plan.events.length;
      return { events, lines: world.trace.length, text: tellEndToEnd(world, lines) };
    },
  },
};
