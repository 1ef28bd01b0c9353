import { takeTurns } from '../../../packages/onceward/src/stores/sqlite/turns.ts';
import { Dice } from '../dice.ts';
import type { Life } from './life.ts';
import type { PlannedEvent } from './plan.ts';
import type { Scheduler } from './scheduler.ts';

/** The longest pause of a retry loop. */
const TRIES_AGAIN_MS = 4;

/** A file with one writer at a time and no queue: who finds it busy tries again. */
export class OneFile {
  readonly #scheduler: Scheduler;
  readonly #dice: Dice;
  #busy = false;

  constructor(scheduler: Scheduler, seed: number) {
    this.#scheduler = scheduler;
    this.#dice = new Dice(seed, 12);
  }

  /** Runs `write` as soon as the file is found free. */
  whenFree(write: () => void): void {
    if (!this.#busy) write();
    else
      this.#scheduler.after(1 + this.#dice.unit() * (TRIES_AGAIN_MS - 1), () =>
        this.whenFree(write),
      );
  }

  /** All of them are asked for at once, on one connection of this process. */
  burst(life: Life, { transactions, eachMs }: Extract<PlannedEvent, { kind: 'burst' }>): void {
    const inTurn = takeTurns({ now: () => life.elapsed, sleep: (ms) => life.sleep(ms) });
    for (let left = transactions; left > 0; left -= 1)
      void inTurn(() => this.#transact(life, eachMs));
  }

  async #transact(life: Life, ms: number): Promise<void> {
    await new Promise<void>((resolve) => this.whenFree(resolve));
    this.#busy = true;
    await life.sleep(ms);
    this.#busy = false;
  }
}
