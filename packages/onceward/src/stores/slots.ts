const FIRST_SLOTS = 16;
const NONE = -1;

/**
 * A hash table of rows: it holds hashes and row numbers side by side and touches nothing else, so that a lookup
 * fetches little from memory. What stands in a row, its owner knows and compares.
 */
export class Slots {
  /** By turns a hash and the row that has it, plus one; zero: empty. */
  #pairs = new Int32Array(2 * FIRST_SLOTS);
  #used = 0;

  /** Where the first row of this hash is noted, or -1. */
  first(hash: number): number {
    return this.#seek(hash, hash & this.#mask);
  }

  /** Where the next one is, behind `at`, or -1. */
  next(hash: number, at: number): number {
    return this.#seek(hash, (at + 1) & this.#mask);
  }

  rowAt(at: number): number {
    return (this.#pairs[2 * at + 1] as number) - 1;
  }

  add(hash: number, row: number): void {
    this.#used++;
    if (3 * this.#used > this.#pairs.length) this.#grow();
    this.#place(hash, row);
  }

  /** Takes a row out and moves up those behind it that would otherwise no longer be found. */
  remove(hash: number, row: number): void {
    const pairs = this.#pairs;
    const mask = this.#mask;
    this.#used--;
    let gap = hash & mask;
    while (pairs[2 * gap + 1] !== row + 1) gap = (gap + 1) & mask;
    for (let at = (gap + 1) & mask; pairs[2 * at + 1] !== 0; at = (at + 1) & mask) {
      const home = (pairs[2 * at] as number) & mask;
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      pairs[2 * gap] = pairs[2 * at] as number;
      pairs[2 * gap + 1] = pairs[2 * at + 1] as number;
      gap = at;
    }
    pairs[2 * gap] = 0;
    pairs[2 * gap + 1] = 0;
  }

  get #mask(): number {
    return (this.#pairs.length >>> 1) - 1;
  }

  #seek(hash: number, from: number): number {
    const pairs = this.#pairs;
    const mask = (pairs.length >>> 1) - 1;
    for (let at = from; ; at = (at + 1) & mask) {
      if (pairs[2 * at + 1] === 0) return NONE;
      if (pairs[2 * at] === hash) return at;
    }
  }

  #place(hash: number, row: number): void {
    const pairs = this.#pairs;
    const mask = (pairs.length >>> 1) - 1;
    let at = hash & mask;
    while (pairs[2 * at + 1] !== 0) at = (at + 1) & mask;
    pairs[2 * at] = hash;
    pairs[2 * at + 1] = row + 1;
  }

  #grow(): void {
    const old = this.#pairs;
    this.#pairs = new Int32Array(2 * old.length);
    for (let at = 0; at < old.length; at += 2) {
      const row = (old[at + 1] as number) - 1;
      if (row >= 0) this.#place(old[at] as number, row);
    }
  }
}

/** A power of two. Tables grow one by one, so that no call pays for the growth of all. */
const SHARDS = 256;

export class SlotShards {
  readonly #shards = Array.from({ length: SHARDS }, () => new Slots());

  /** The table for this hash; its highest bits choose, and within the table the lowest do. */
  of(hash: number): Slots {
    return this.#shards[hash >>> 24] as Slots;
  }
}
