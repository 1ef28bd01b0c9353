/** A part of the budget. Giving it back twice is giving it back once. */
export interface Share {
  /** Gives back what turned out not to be needed. */
  shrinkTo(bytes: number): void;
  release(): void;
}

interface Waiting {
  readonly bytes: number;
  grant(share: Share): void;
}

/**
 * How many bytes of bodies may be held at once. Whoever wants to hold one asks for all of it before reading any, and
 * waits in line: with only parts granted, everybody could end up holding half a body and waiting for the rest.
 */
export class BufferBudget {
  readonly #total: number;
  #free: number;
  readonly #line: Waiting[] = [];

  constructor(bytes: number) {
    this.#total = bytes;
    this.#free = bytes;
  }

  get held(): number {
    return this.#total - this.#free;
  }

  /** Grants at once where there is room and nobody waits. No body is larger than the whole budget. */
  take(wanted: number): Share | Promise<Share> {
    const bytes = Math.min(wanted, this.#total);
    if (this.#line.length === 0 && bytes <= this.#free) return this.#grant(bytes);
    return new Promise((grant) => this.#line.push({ bytes, grant }));
  }

  #grant(bytes: number): Share {
    this.#free -= bytes;
    let held = bytes;
    const shrinkTo = (rest: number) => {
      if (rest >= held) return;
      this.#free += held - rest;
      held = rest;
      this.#serveLine();
    };
    return { shrinkTo, release: () => shrinkTo(0) };
  }

  #serveLine(): void {
    for (let first = this.#line[0]; first !== undefined; first = this.#line[0]) {
      if (first.bytes > this.#free) return;
      this.#line.shift();
      first.grant(this.#grant(first.bytes));
    }
  }
}
