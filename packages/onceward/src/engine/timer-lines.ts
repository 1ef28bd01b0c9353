import type { DurationMs } from './units.ts';
import type { Timer, World } from './world.ts';

/** Something to be called after a while, unless it is dropped first. */
export interface Due {
  readonly at: DurationMs;
  /** `null` once it has been called or dropped. */
  call: (() => void) | null;
}

/**
 * Timers in great number. Those of one duration end in the order they began, so one queue and one real timer serve
 * them all: starting and dropping one costs a slot in an array. Nearly all are dropped before they are due.
 */
export class TimerLines {
  readonly #world: World;
  readonly #lines = new Map<DurationMs, Line>();

  constructor(world: World) {
    this.#world = world;
  }

  start(ms: DurationMs, call: () => void): Due {
    let line = this.#lines.get(ms);
    if (line === undefined) {
      line = new Line(this.#world, ms);
      this.#lines.set(ms, line);
    }
    return line.start(call);
  }
}

const COMPACT_FROM = 1_024;

class Line {
  readonly #world: World;
  readonly #ms: DurationMs;
  #queue: Due[] = [];
  #first = 0;
  #compactAt = COMPACT_FROM;
  #timer: Timer | null = null;

  constructor(world: World, ms: DurationMs) {
    this.#world = world;
    this.#ms = ms;
  }

  start(call: () => void): Due {
    this.#dropEnded();
    const due: Due = { at: this.#world.elapsed() + this.#ms, call };
    this.#queue.push(due);
    if (this.#timer === null) this.#arm(this.#ms);
    return due;
  }

  /**
   * What ended in order leaves at once. One that lasts would hold all that ended behind it; they are taken out when
   * they outnumber the living, so that the queue stays as long as twice what is open.
   */
  #dropEnded(): void {
    const queue = this.#queue;
    while (this.#first < queue.length && queue[this.#first]!.call === null) this.#first += 1;
    if (this.#first === queue.length) {
      queue.length = 0;
      this.#first = 0;
    } else if (queue.length >= this.#compactAt) {
      this.#queue = queue.filter(({ call }) => call !== null);
      this.#first = 0;
      this.#compactAt = Math.max(COMPACT_FROM, 2 * this.#queue.length);
    }
  }

  #arm(ms: DurationMs): void {
    this.#timer = this.#world.startTimer(ms, () => this.#callDue());
  }

  #callDue(): void {
    this.#timer = null;
    const now = this.#world.elapsed();
    const due: (() => void)[] = [];
    while (this.#first < this.#queue.length) {
      const head = this.#queue[this.#first]!;
      if (head.call !== null) {
        if (head.at > now) break;
        due.push(head.call);
        head.call = null;
      }
      this.#first += 1;
    }
    this.#dropEnded();
    const next = this.#queue[this.#first];
    if (next !== undefined) this.#arm(Math.max(1, next.at - now));
    for (const call of due) call();
  }
}
