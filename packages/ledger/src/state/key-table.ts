/** Where a transaction is: its block, and its place in it. */
export interface Location {
  readonly height: number;
  readonly position: number;
}

/** Low and high word of the hash, low word of the height, and both the rest of the height and the position. */
export const SLOT_WORDS = 4;
const FIRST_SLOTS = 16;
/** A power of two. Each part grows on its own, so that growing never stops the ledger for long. */
const PARTS = 256;
const TWO_POW_32 = 2 ** 32;

/** A location in two words. Positions stay below 2^16, heights below 2^48. */
export function packLocation({ height, position }: Location): [height: number, place: number] {
  return [height >>> 0, ((Math.floor(height / TWO_POW_32) << 16) | position) >>> 0];
}

/**
 * Hashes of keys with the location of the transaction that used each, in flat arrays: sixteen bytes a slot, nothing
 * for the garbage collector. Two keys with one hash have an entry each.
 */
export class KeyTable {
  readonly #parts: Part[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(low: number, high: number, height: number, place: number): void {
    this.#size += 1;
    (this.#parts[high & (PARTS - 1)] ??= new Part()).add(low, high, height, place);
  }

  /** The locations stored under a hash; most often none, seldom more than one. */
  find(low: number, high: number): readonly Location[] {
    const part = this.#parts[high & (PARTS - 1)];
    return part === undefined ? NOTHING : part.find(low, high);
  }
}

const NOTHING: readonly Location[] = [];

class Part {
  #words = new Uint32Array(FIRST_SLOTS * SLOT_WORDS);
  #mask = FIRST_SLOTS - 1;
  #used = 0;

  add(low: number, high: number, height: number, place: number): void {
    if (this.#used * 4 >= (this.#mask + 1) * 3) this.#grow();
    this.#used += 1;
    let slot = low & this.#mask;
    while (!this.#isFree(slot)) slot = (slot + 1) & this.#mask;
    const at = slot * SLOT_WORDS;
    this.#words[at] = low;
    this.#words[at + 1] = high;
    this.#words[at + 2] = height;
    this.#words[at + 3] = place;
  }

  find(low: number, high: number): readonly Location[] {
    let found: Location[] | null = null;
    const words = this.#words;
    for (let slot = low & this.#mask; !this.#isFree(slot); slot = (slot + 1) & this.#mask) {
      const at = slot * SLOT_WORDS;
      if (words[at] !== low || words[at + 1] !== high) continue;
      const place = words[at + 3] as number;
      const height = (words[at + 2] as number) + (place >>> 16) * TWO_POW_32;
      (found ??= []).push({ height, position: place & 0xffff });
    }
    return found ?? NOTHING;
  }

  /** No block has the height 0. */
  #isFree(slot: number): boolean {
    const at = slot * SLOT_WORDS;
    return this.#words[at + 2] === 0 && (this.#words[at + 3] as number) >>> 16 === 0;
  }

  #grow(): void {
    const before = this.#words;
    this.#mask = this.#mask * 2 + 1;
    this.#words = new Uint32Array((this.#mask + 1) * SLOT_WORDS);
    this.#used = 0;
    for (let at = 0; at < before.length; at += SLOT_WORDS) {
      const height = before[at + 2] as number;
      const place = before[at + 3] as number;
      if (height === 0 && place >>> 16 === 0) continue;
      this.add(before[at] as number, before[at + 1] as number, height, place);
    }
  }
}
