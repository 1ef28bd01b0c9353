import type { RequestHandler } from 'express';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { expressStart } from './express-app.ts';
import { OWN_WRAPS, PACKAGES } from './express-neighbours.ts';
import { KINDS, type Neighbour, proveBeside, proveSameWork, proveWork } from './matrix.ts';

const ALL = [...PACKAGES, ...OWN_WRAPS];

/** Two that keep `request.session` cannot live in one application, with a door or without. */
const RIVALS = ['cookie-session', 'express-session'];
const without = (name: string) => ALL.filter((one) => one.name !== name);

const COMBINATIONS = 120;

const mounted = (
  neighbours: readonly Neighbour<RequestHandler>[],
  log: string[] = [],
): RequestHandler[] => neighbours.map(({ mount }) => mount(log));

it.each(ALL)('[H14] $name before the Express door works, and so does the door', async (one) => {
  const log: string[] = [];
  const start = expressStart(
    () => mounted([one], log),
    () => [],
  );
  const seen = await proveBeside(start);
  proveWork(one, 'before', seen);
  if (one.isLogger) await expect.poll(() => log.length).toBe(3 * KINDS.length);
});

it.each(ALL)('[H14] $name behind the Express door works, and so does the door', async (one) => {
  const log: string[] = [];
  const start = expressStart(
    () => [],
    () => mounted([one], log),
  );
  const seen = await proveBeside(start);
  proveWork(one, 'behind', seen);
  // The failure and the page are executed twice, the others once.
  if (one.isLogger) await expect.poll(() => log.length).toBe(2 * KINDS.length + 2);
});

it('[H14] all of them together are well, before the Express door, behind it, and around it', async () => {
  for (const rival of RIVALS) {
    const all = without(rival);
    for (const order of [all, all.toReversed()]) {
      for (const split of [0, Math.floor(all.length / 2), all.length]) {
        const start = expressStart(
          () => mounted(order.slice(0, split)),
          () => mounted(order.slice(split)),
        );
        await proveBeside(start);
      }
    }
  }
});

it('[H5] what is no stream is kept without a setting, with all of them before the door', async () => {
  const start = expressStart(
    () => mounted(without('cookie-session')),
    () => [],
    'pass',
  );
  await proveBeside(
    start,
    KINDS.filter((kind) => kind !== 'stream'),
  );
});

it('[H14] any of them in any order and on either side of the Express door are well', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc
        .constantFrom(...RIVALS)
        .chain((rival) => fc.shuffledSubarray(without(rival).map(({ name }) => name))),
      fc.nat({ max: ALL.length }),
      async (names, place) => {
        const chosen = names.map((name) => ALL.find((one) => one.name === name)!);
        const split = place % (chosen.length + 1);
        const before = chosen.slice(0, split);
        const behind = chosen.slice(split);
        const start = expressStart(
          () => mounted(before),
          () => mounted(behind),
        );
        const seen = await proveBeside(start);
        for (const one of before) proveSameWork(one, seen);
      },
    ),
    { numRuns: COMBINATIONS, seed: 20_261_118, endOnFailure: true },
  );
});
