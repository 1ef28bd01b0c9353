import type { SettledState } from '../engine/record.ts';
import type { DurationMs } from '../engine/units.ts';

/** A settled answer as a gate remembers it. */
export interface RememberedAnswer {
  readonly fingerprint: string;
  readonly state: SettledState;
  /** The job's id, or why there is none. */
  readonly idOrReason: string;
  /** On the gate's own clock. */
  readonly keepUntil: DurationMs;
  /** Read since it was last first in line for eviction. */
  used: boolean;
}

/** Reasons of rejections may be long; all answers together hold no more text than this for each entry, on average. */
const CHARACTERS_PER_ENTRY = 256;

/**
 * What a gate knows to be settled: bounded in number and in text. Evicts by second chance (CLOCK). Nothing
 * but strings, so that churn does not fragment memory outside the heap.
 */
export class AnswerMemory {
  readonly #answers = new Map<string, RememberedAnswer>();
  readonly #maxEntries: number;
  #characters = 0;
  #evictions = 0;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#answers.size;
  }

  get evictions(): number {
    return this.#evictions;
  }

  get(name: string, now: DurationMs): RememberedAnswer | undefined {
    const found = this.#answers.get(name);
    if (found === undefined) return undefined;
    if (found.keepUntil <= now) {
      this.#drop(name, found);
      return undefined;
    }
    found.used = true;
    return found;
  }

  set(name: string, answer: RememberedAnswer): void {
    const old = this.#answers.get(name);
    if (old !== undefined) this.#drop(name, old);
    this.#answers.set(name, answer);
    this.#characters += answer.idOrReason.length;
    if (this.#isOver(0)) this.#evict();
  }

  /** Expired entries are never returned; this only frees their memory. */
  forgetExpired(now: DurationMs): void {
    for (const [name, answer] of this.#answers) {
      if (answer.keepUntil <= now) this.#drop(name, answer);
    }
  }

  /** Makes room for a few more than needed: the walk to a map's first entry passes all that was deleted before it. */
  #evict(): void {
    const spare = this.#maxEntries >> 5;
    for (const [name, answer] of this.#answers) {
      if (!this.#isOver(spare)) return;
      this.#drop(name, answer);
      if (answer.used) {
        answer.used = false;
        this.#answers.set(name, answer);
        this.#characters += answer.idOrReason.length;
      } else {
        this.#evictions += 1;
      }
    }
  }

  #isOver(spare: number): boolean {
    const entries = this.#maxEntries - spare;
    return this.#answers.size > entries || this.#characters > entries * CHARACTERS_PER_ENTRY;
  }

  #drop(name: string, answer: RememberedAnswer): void {
    this.#answers.delete(name);
    this.#characters -= answer.idOrReason.length;
  }
}
