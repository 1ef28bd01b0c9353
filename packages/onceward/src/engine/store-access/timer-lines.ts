import type { DurationMs } from '../units.ts';
import type { Timer, World } from '../world.ts';

/** Called after a while, unless it is over first. The line may hold on to it for a while after that. */
export interface Due {
  /** When. The line sets it. */
  dueAt: DurationMs;
  /** It has been called, or need not be any more. */
  isOver: boolean;
  due(): void;
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

  start(ms: DurationMs, due: Due): void {
    let line = this.#lines.get(ms);
    if (line === undefined) {
      line = new Line(this.#world, ms);
      this.#lines.set(ms, line);
    }
    line.start(due);
  }
}

const COMPACT_FROM = 1_024;

/** In the place of what has left, so that nothing is held there. */
const GONE: Due = { dueAt: 0, isOver: true, due() {} };

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

  start(due: Due): void {
    this.#dropEnded();
    due.dueAt = this.#world.elapsed() + this.#ms;
    this.#queue.push(due);
    if (this.#timer === null) this.#arm(this.#ms);
  }

  /**
   * What ended in order leaves at once. One that lasts would hold all that ended behind it; they are taken out when
   * they outnumber the living, so that the queue stays as long as twice what is open.
   */
  #dropEnded(): void {
    const queue = this.#queue;
    while (this.#first < queue.length && queue[this.#first]!.isOver) {
      queue[this.#first] = GONE;
      this.#first += 1;
    }
    if (this.#first === queue.length) {
      queue.length = 0;
      this.#first = 0;
    } else if (queue.length >= this.#compactAt) {
      this.#queue = queue.filter(({ isOver }) => !isOver);
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
    const due: Due[] = [];
    while (this.#first < this.#queue.length) {
      const head = this.#queue[this.#first]!;
      if (!head.isOver) {
        if (head.dueAt > now) break;
        due.push(head);
        head.isOver = true;
      }
      this.#first += 1;
    }
    this.#dropEnded();
    const next = this.#queue[this.#first];
    if (next !== undefined) this.#arm(Math.max(1, next.dueAt - now));
    for (const one of due) one.due();
  }
}
