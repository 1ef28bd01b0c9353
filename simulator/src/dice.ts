/** Chance from a seed: the same seed gives the same throws, on every machine. */
export class Dice {
  #state: number;

  constructor(...seeds: number[]) {
    this.#state = mixed(...seeds);
  }

  /** Uniform in [0, 1). */
  unit(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    return scramble(this.#state) / 0x1_0000_0000;
  }

  /** A whole number from 0 to `n - 1`. */
  below(n: number): number {
    return Math.floor(this.unit() * n);
  }

  /** A whole number from `least` to `most`, both included. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }
}

/**
 * One 32-bit number made of several. Whatever is thrown for the nth call of a process depends on the seed, the
 * process and n alone, so that taking an event out of a plan leaves the rest of the world as it was.
 */
export function mixed(...parts: number[]): number {
  let hash = 0x2545f491;
  for (const part of parts) {
    hash = scramble((hash ^ (part | 0)) + 0x9e3779b9);
    hash = scramble((hash ^ Math.floor(part / 0x1_0000_0000)) + 0x7f4a7c15);
  }
  return hash;
}

function scramble(value: number): number {
  const once = Math.imul(value ^ (value >>> 16), 0x21f0aaad);
  const twice = Math.imul(once ^ (once >>> 15), 0x735a2d97);
  return (twice ^ (twice >>> 15)) >>> 0;
}
