/** Something that will happen at a moment of virtual time. */
export interface Appointment {
  readonly at: number;
  readonly order: number;
  cancelled: boolean;
  readonly run: () => void;
}

/**
 * Virtual time. Appointments are kept in the order of their moments, and of their making within one moment. Nothing
 * else moves the clock, so a world of hours passes in milliseconds and always in the same way.
 */
export class Scheduler {
  #now = 0;
  #made = 0;
  readonly #heap: Appointment[] = [];

  get now(): number {
    return this.#now;
  }

  at(time: number, run: () => void): Appointment {
    this.#made += 1;
    const appointment = { at: Math.max(time, this.#now), order: this.#made, cancelled: false, run };
    this.#heap.push(appointment);
    this.#rise(this.#heap.length - 1);
    return appointment;
  }

  /** Clocks have whole milliseconds here too; a timer never fires before its time. */
  after(ms: number, run: () => void): Appointment {
    return this.at(this.#now + Math.ceil(ms), run);
  }

  /** Lets the next thing happen. False: nothing is left to happen. */
  step(): boolean {
    for (let next = this.#pop(); next !== undefined; next = this.#pop()) {
      if (next.cancelled) continue;
      this.#now = next.at;
      next.run();
      return true;
    }
    return false;
  }

  #pop(): Appointment | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first !== undefined && last !== undefined && heap.length > 0) {
      heap[0] = last;
      this.#sink();
    }
    return first;
  }

  #rise(from: number): void {
    const heap = this.#heap;
    let index = from;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(heap[index]!, heap[parent]!)) return;
      this.#exchange(index, parent);
      index = parent;
    }
  }

  #sink(): void {
    const heap = this.#heap;
    let index = 0;
    for (;;) {
      let least = index;
      for (const child of [2 * index + 1, 2 * index + 2]) {
        if (child < heap.length && isBefore(heap[child]!, heap[least]!)) least = child;
      }
      if (least === index) return;
      this.#exchange(index, least);
      index = least;
    }
  }

  #exchange(a: number, b: number): void {
    const kept = this.#heap[a]!;
    this.#heap[a] = this.#heap[b]!;
    this.#heap[b] = kept;
  }
}

function isBefore(a: Appointment, b: Appointment): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
