import type { KeyHash } from './key-hash.ts';

/** Where a transaction is: its block, and its place in it. */
export interface Location {
  readonly height: number;
  readonly position: number;
}

/**
 * A used key as words: hash 4, low word of the height, rest of the height and position, and how long before the
 * end of its generation it was used, in milliseconds. What a window adds of its own comes behind.
 */
export const KEY_WORDS = 7;
const HEIGHT = 4;
const PLACE = 5;
const AGE = 6;

const FIRST_SLOTS = 16;
/** A power of two. Each part grows on its own, so that growing never stops the ledger for long. */
const PARTS = 256;
const TWO_POW_32 = 2 ** 32;

/** Positions stay below 2^16, heights below 2^48. */
export function writeKey(
  words: Int32Array,
  at: number,
  { a, b, c, d }: KeyHash,
  { height, position }: Location,
  age: number,
): void {
  words[at] = a;
  words[at + 1] = b;
  words[at + 2] = c;
  words[at + 3] = d;
  words[at + HEIGHT] = height | 0;
  words[at + PLACE] = (Math.floor(height / TWO_POW_32) << 16) | position;
  words[at + AGE] = age | 0;
}

export function heightAt(words: Int32Array, at: number): number {
  const high = (words[at + PLACE] as number) >>> 16;
  return ((words[at + HEIGHT] as number) >>> 0) + high * TWO_POW_32;
}

export function positionAt(words: Int32Array, at: number): number {
  return (words[at + PLACE] as number) & 0xffff;
}

export function ageAt(words: Int32Array, at: number): number {
  return (words[at + AGE] as number) >>> 0;
}

/** Used keys in flat arrays, found by their hash: nothing for the garbage collector. */
export class KeyTable {
  readonly #slotWords: number;
  readonly #parts: Part[] = [];
  #size = 0;

  constructor(slotWords = KEY_WORDS) {
    this.#slotWords = slotWords;
  }

  get size(): number {
    return this.#size;
  }

  /** Takes a copy of the words of one key. */
  add(words: Int32Array, at: number): void {
    this.#size += 1;
    const part = (words[at + 1] as number) & (PARTS - 1);
    (this.#parts[part] ??= new Part(this.#slotWords)).add(words, at);
  }

  /** The words of the latest use of a key. */
  find(hash: KeyHash): Int32Array | undefined {
    return this.#parts[hash.b & (PARTS - 1)]?.find(hash);
  }
}

class Part {
  readonly #slotWords: number;
  #words: Int32Array;
  #mask = FIRST_SLOTS - 1;
  #used = 0;

  constructor(slotWords: number) {
    this.#slotWords = slotWords;
    this.#words = new Int32Array(FIRST_SLOTS * slotWords);
  }

  add(words: Int32Array, from: number): void {
    if (this.#used * 4 >= (this.#mask + 1) * 3) this.#grow();
    this.#used += 1;
    let slot = (words[from] as number) & this.#mask;
    while (!this.#isFree(slot)) slot = (slot + 1) & this.#mask;
    const at = slot * this.#slotWords;
    for (let word = 0; word < this.#slotWords; word += 1) {
      this.#words[at + word] = words[from + word] as number;
    }
  }

  /** A key may be there twice, if its window is shorter than a generation. */
  find({ a, b, c, d }: KeyHash): Int32Array | undefined {
    const words = this.#words;
    let latest = -1;
    for (let slot = a & this.#mask; !this.#isFree(slot); slot = (slot + 1) & this.#mask) {
      const at = slot * this.#slotWords;
      if (words[at] !== a || words[at + 1] !== b) continue;
      if (words[at + 2] !== c || words[at + 3] !== d) continue;
      if (latest < 0 || heightAt(words, at) > heightAt(words, latest)) latest = at;
    }
    return latest < 0 ? undefined : words.subarray(latest, latest + this.#slotWords);
  }

  /** No block has the height 0. */
  #isFree(slot: number): boolean {
    const at = slot * this.#slotWords;
    return this.#words[at + HEIGHT] === 0 && (this.#words[at + PLACE] as number) >>> 16 === 0;
  }

  #grow(): void {
    const before = this.#words;
    const slots = this.#mask + 1;
    this.#mask = this.#mask * 2 + 1;
    this.#words = new Int32Array((this.#mask + 1) * this.#slotWords);
    this.#used = 0;
    for (let slot = 0; slot < slots; slot += 1) {
      const at = slot * this.#slotWords;
      if (heightAt(before, at) !== 0) this.add(before, at);
    }
  }
}
