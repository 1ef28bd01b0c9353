import { StoreError } from '../errors.ts';
import { sleep, type World } from '../world.ts';

/** Losing this many swaps in a row takes other writers as many writes of the same record. */
const MOST = 16;
const WITHOUT_PAUSE = 3;
const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 100;

/**
 * Bounds how often one caller decides again about one record. A swap that loses shows what is there, and that leads to
 * a new decision; only a store that answers nonsense, or a crowd of writers, makes it go on and on.
 */
export class Rounds {
  readonly #world: World;
  #made = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** Before each further try: at once the first few times, then after a pause that grows. Throws after the last. */
  async next(): Promise<void> {
    this.#made += 1;
    if (this.#made > MOST) {
      throw new StoreError(
        'ONCE_STORE_UNAVAILABLE',
        `the store has refused ${MOST} writes of this record, each without showing what is in the way`,
        { applied: 'no' },
      );
    }
    if (this.#made <= WITHOUT_PAUSE) return;
    const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#made - WITHOUT_PAUSE));
    await sleep(this.#world, Math.ceil(longest * (0.5 + this.#world.random() / 2)), true);
  }
}
