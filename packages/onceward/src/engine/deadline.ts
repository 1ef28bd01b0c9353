import { StoreError } from './errors.ts';
import type { DurationMs } from './units.ts';
import type { Timer, World } from './world.ts';

/**
 * Bounds calls in time. Calls of one duration end in the order they began, so one queue and one timer a
 * duration serve them all: a call costs a slot, not a timer.
 */
export class Deadlines {
  readonly #world: World;
  readonly #lines = new Map<DurationMs, Line>();

  constructor(world: World) {
    this.#world = world;
  }

  /** The call's own result, or a `StoreError` of unknown outcome once `ms` have passed. */
  bound<T>(ms: DurationMs, call: Promise<T>): Promise<T> {
    let line = this.#lines.get(ms);
    if (line === undefined) {
      line = new Line(this.#world, ms);
      this.#lines.set(ms, line);
    }
    return line.add(call);
  }
}

interface Slot {
  readonly endsAt: DurationMs;
  open: boolean;
  expire(): void;
}

class Line {
  readonly #world: World;
  readonly #ms: DurationMs;
  #slots: Slot[] = [];
  #first = 0;
  #timer: Timer | null = null;

  constructor(world: World, ms: DurationMs) {
    this.#world = world;
    this.#ms = ms;
  }

  add<T>(call: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const slot: Slot = {
        endsAt: this.#world.elapsed() + this.#ms,
        open: true,
        expire: () => reject(late(this.#ms)),
      };
      this.#slots.push(slot);
      if (this.#timer === null) this.#arm(this.#ms);
      call.then(
        (value) => {
          this.#close(slot);
          resolve(value);
        },
        (error) => {
          this.#close(slot);
          reject(error);
        },
      );
    });
  }

  #close(slot: Slot): void {
    if (!slot.open) return;
    slot.open = false;
    this.#dropClosedHead();
  }

  #dropClosedHead(): void {
    while (this.#first < this.#slots.length && !this.#slots[this.#first]!.open) this.#first += 1;
    if (this.#first === this.#slots.length) {
      this.#slots.length = 0;
      this.#first = 0;
    } else if (this.#first >= 1_024) {
      this.#slots.splice(0, this.#first);
      this.#first = 0;
    }
  }

  #arm(ms: DurationMs): void {
    this.#timer = this.#world.startTimer(ms, () => this.#expireDue());
  }

  #expireDue(): void {
    this.#timer = null;
    const now = this.#world.elapsed();
    let head = this.#slots[this.#first];
    while (head !== undefined && head.endsAt <= now) {
      this.#close(head);
      head.expire();
      head = this.#slots[this.#first];
    }
    if (head !== undefined) this.#arm(Math.max(1, head.endsAt - now));
  }
}

function late(ms: DurationMs): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', `the store did not answer within ${ms} ms`);
}
