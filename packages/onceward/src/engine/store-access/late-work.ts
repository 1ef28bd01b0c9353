import type { DurationMs } from '../units.ts';
import { sleep, type World } from '../world.ts';

export interface LateWorkOptions {
  /** How long one piece of work is tried. */
  readonly forMs: DurationMs;
  /** How many may be open at once; more are dropped, and the lease decides instead. */
  readonly atMost: number;
}

/**
 * Writes that could not be made while the caller waited: a settle or a release that met a store which was down.
 * Tried again in the background, ever less often, until done, out of time, or the engine closes. Nothing
 * depends on them: a record that is never written lapses and is decided by its lease.
 */
export class LateWork {
  readonly #world: World;
  readonly #options: LateWorkOptions;
  #open = 0;
  #closed = false;

  constructor(world: World, options: LateWorkOptions) {
    this.#world = world;
    this.#options = options;
  }

  get open(): number {
    return this.#open;
  }

  /** `attempt` resolves to true when there is nothing left to do. False from here: no room, it was dropped. */
  add(attempt: () => Promise<boolean>): boolean {
    if (this.#closed || this.#open >= this.#options.atMost) return false;
    this.#open += 1;
    void this.#persist(attempt).finally(() => {
      this.#open -= 1;
    });
    return true;
  }

  /** Takes no more, and gives what is open up to `graceMs` to get done. */
  async close(graceMs: DurationMs): Promise<void> {
    const until = this.#world.elapsed() + graceMs;
    while (this.#open > 0 && this.#world.elapsed() < until) await sleep(this.#world, 20, true);
    this.#closed = true;
  }

  async #persist(attempt: () => Promise<boolean>): Promise<void> {
    const until = this.#world.elapsed() + this.#options.forMs;
    let pause = 50;
    while (!this.#closed && this.#world.elapsed() < until) {
      await sleep(this.#world, pause * (0.5 + this.#world.random()), false);
      try {
        if (await attempt()) return;
      } catch {
        // The store is still out of reach; `callStore` has emitted the failure.
      }
      pause = Math.min(pause * 2, 5_000);
    }
  }
}
