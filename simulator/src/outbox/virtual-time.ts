import type { ClientTimer, ClientWorld } from 'onceward/client';
import { sha256Hex } from 'onceward/keys';

/** Random numbers from a seed: the whole history of a run follows from it. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = (seed ^ 0x9e3779b9) >>> 0;
  }

  /** Uniform in [0, 1). */
  roll(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  chance(probability: number): boolean {
    return this.roll() < probability;
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.roll() * (high - low + 1));
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.between(0, choices.length - 1)] as T;
  }
}

interface Alarm {
  readonly at: number;
  readonly order: number;
  readonly ring: () => void;
}

/** A clock that jumps from one alarm to the next. */
export class VirtualTime {
  #now = 0;
  #order = 0;
  #alarms: Alarm[] = [];

  get now(): number {
    return this.#now;
  }

  after(ms: number, ring: () => void): ClientTimer {
    const alarm: Alarm = { at: this.#now + Math.max(0, ms), order: this.#order++, ring };
    let at = this.#alarms.length;
    while (at > 0 && (this.#alarms[at - 1] as Alarm).at > alarm.at) at -= 1;
    this.#alarms.splice(at, 0, alarm);
    return {
      cancel: () => {
        const found = this.#alarms.indexOf(alarm);
        if (found !== -1) this.#alarms.splice(found, 1);
      },
    };
  }

  sleep(ms: number): Promise<void> {
    if (ms <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.after(ms, resolve);
    });
  }

  /** Rings alarms in order until `isOver`, or until `maxEvents` have rung. Answers how many did. */
  async run(isOver: () => boolean, maxEvents: number): Promise<number> {
    for (let events = 0; events < maxEvents; events += 1) {
      await settleMicrotasks();
      if (isOver() || !this.step()) return events;
    }
    return maxEvents;
  }

  /** Rings the next alarm. `false`: there is none. */
  step(): boolean {
    const alarm = this.#alarms.shift();
    if (alarm === undefined) return false;
    this.#now = alarm.at;
    alarm.ring();
    return true;
  }
}

/** Everything that is ready to run without time passing has run when this settles. */
function settleMicrotasks(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** The world of one life of the client: its timers die with it, its wall clock may be wrong. */
export function lifeWorld(
  time: VirtualTime,
  dice: Dice,
  clock: { offsetMs: number },
  isAlive: () => boolean,
): ClientWorld {
  const epoch = 1_700_000_000_000;
  return {
    now: () => epoch + time.now + clock.offsetMs,
    elapsed: () => time.now,
    random: () => dice.roll(),
    randomBytes: (length) => Uint8Array.from({ length }, () => dice.between(0, 255)),
    digest: async (text) => sha256Hex(text),
    startTimer: (ms, callback) =>
      time.after(ms, () => {
        if (isAlive()) callback();
      }),
  };
}
