import type { World } from 'onceward';
import type { Dice, VirtualTime } from '../outbox/virtual-time.ts';

/** Virtual time 0 as a date, the same for every machine whose clock is right. */
export const EPOCH = 1_700_000_000_000;

/** A machine's wall clock, and how far it is off. */
export interface Clock {
  offsetMs: number;
}

/** One life of a process of the servers. After its end nothing of it is heard any more. */
export class Life {
  readonly world: World;
  #alive = true;
  readonly #atEnd: (() => void)[] = [];

  constructor(time: VirtualTime, dice: Dice, clock: Clock) {
    const bornAt = time.now;
    this.world = {
      now: () => EPOCH + time.now + clock.offsetMs,
      elapsed: () => time.now - bornAt,
      random: () => dice.roll(),
      token: () => Array.from({ length: 4 }, () => dice.between(1e8, 1e9).toString(36)).join(''),
      startTimer: (ms, callback) => time.after(ms, () => this.#alive && callback()),
    };
  }

  get alive(): boolean {
    return this.#alive;
  }

  readonly isAlive = (): boolean => this.#alive;

  whenOver(act: () => void): void {
    this.#atEnd.push(act);
  }

  kill(): void {
    if (!this.#alive) return;
    this.#alive = false;
    for (const act of this.#atEnd) act();
  }

  /** What comes back after the process has died, comes back to nobody. */
  async hear<T>(coming: Promise<T>): Promise<T> {
    try {
      const value = await coming;
      return this.#alive ? value : await never();
    } catch (error) {
      if (this.#alive) throw error;
      return never();
    }
  }
}

export function never<T>(): Promise<T> {
  return new Promise(() => {});
}
