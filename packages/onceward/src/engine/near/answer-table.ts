import type { OperationId } from '../record.ts';
import type { EpochMs } from '../units.ts';
import { KeyHash } from './key-hash.ts';
import type { NearAnswer } from './near-tier.ts';

/** One scope that has answers in the table. */
interface Scope {
  readonly name: string;
  /** Keys of different scopes hash differently. */
  readonly salt: number;
  answers: number;
}

const FIRST_SLOTS = 1_024;
/** Places for each slot, so that a search ends soon. */
const SPREAD = 2;

/**
 * Settled answers by scope and key, in slots. What a look-up compares lies side by side in arrays, each in the same
 * slot, so that the processor fetches all of it at once; the answer itself is not touched. A map would fetch one thing
 * after the other, and most are far away when there are many.
 */
export class AnswerTable {
  readonly #scopes = new Map<string, Scope>();
  readonly #keyHash: KeyHash;
  #lastSalt = 0;
  /** Hash and slot + 1 by turns; 0 where nothing is. */
  #places = new Int32Array(2 * SPREAD * FIRST_SLOTS);
  #mask = SPREAD * FIRST_SLOTS - 1;
  #hashes = new Int32Array(FIRST_SLOTS);
  #ends = new Float64Array(FIRST_SLOTS);
  #weights = new Int32Array(FIRST_SLOTS);
  #used = new Uint8Array(FIRST_SLOTS);
  readonly #owners: (Scope | null)[] = [];
  readonly #keys: string[] = [];
  readonly #fingerprints: string[] = [];
  /** `null`: the slot is empty. */
  readonly #answers: (NearAnswer | null)[] = [];
  /** Slots that are empty again; the last one is filled first. */
  readonly #empty: number[] = [];
  #hand = 0;
  #count = 0;
  #weight = 0;

  constructor(secret: string) {
    this.#keyHash = new KeyHash(secret);
  }

  get count(): number {
    return this.#count;
  }

  get weight(): number {
    return this.#weight;
  }

  /** The slot of an answer whose retention has not ended, or -1. Counts as a use. */
  find({ scope, key }: OperationId, now: EpochMs): number {
    const slot = this.#slotOf(scope, key);
    if (slot < 0) return -1;
    if (this.#ends[slot]! <= now) {
      this.#drop(slot);
      return -1;
    }
    this.#used[slot] = 1;
    return slot;
  }

  fingerprintAt(slot: number): string {
    return this.#fingerprints[slot]!;
  }

  answerAt(slot: number): NearAnswer {
    return this.#answers[slot]!;
  }

  /** In the place of another under the same id, if there is one. */
  put(id: OperationId, answer: NearAnswer, weight: number): void {
    this.remove(id);
    const scope = this.#scopeOf(id.scope);
    const slot = this.#empty.pop() ?? this.#newSlot();
    const hash = this.#keyHash.of(id.key, scope.salt);
    scope.answers += 1;
    this.#owners[slot] = scope;
    this.#keys[slot] = id.key;
    this.#fingerprints[slot] = answer.fingerprint;
    this.#answers[slot] = answer;
    this.#hashes[slot] = hash;
    this.#ends[slot] = answer.keepUntil;
    this.#weights[slot] = weight;
    this.#used[slot] = 0;
    this.#place(hash, slot);
    this.#count += 1;
    this.#weight += weight;
  }

  remove({ scope, key }: OperationId): void {
    const slot = this.#slotOf(scope, key);
    if (slot >= 0) this.#drop(slot);
  }

  /**
   * Takes one answer out. A hand goes round the slots: what was used since it last came by is passed over once. There
   * must be an answer.
   */
  evictOne(): void {
    for (;;) {
      const slot = this.#hand;
      this.#hand = slot + 1 < this.#answers.length ? slot + 1 : 0;
      if (this.#owners[slot] === null) continue;
      if (this.#used[slot] === 0) {
        this.#drop(slot);
        return;
      }
      this.#used[slot] = 0;
    }
  }

  #slotOf(name: string, key: string): number {
    const scope = this.#scopes.get(name);
    if (scope === undefined) return -1;
    const hash = this.#keyHash.of(key, scope.salt);
    const places = this.#places;
    for (let at = hash & this.#mask; ; at = (at + 1) & this.#mask) {
      const slot = places[2 * at + 1]! - 1;
      if (slot < 0) return -1;
      if (places[2 * at] !== hash) continue;
      if (this.#keys[slot] === key && this.#owners[slot] === scope) return slot;
    }
  }

  #scopeOf(name: string): Scope {
    let scope = this.#scopes.get(name);
    if (scope === undefined) {
      this.#lastSalt = (this.#lastSalt + 1) | 0;
      scope = { name, salt: this.#lastSalt, answers: 0 };
      this.#scopes.set(name, scope);
    }
    return scope;
  }

  #drop(slot: number): void {
    const scope = this.#owners[slot]!;
    scope.answers -= 1;
    if (scope.answers === 0) this.#scopes.delete(scope.name);
    this.#unplace(slot);
    this.#owners[slot] = null;
    this.#keys[slot] = '';
    this.#fingerprints[slot] = '';
    this.#answers[slot] = null;
    this.#empty.push(slot);
    this.#count -= 1;
    this.#weight -= this.#weights[slot]!;
  }

  #newSlot(): number {
    const slot = this.#answers.length;
    if (slot === this.#hashes.length) this.#grow();
    return slot;
  }

  #place(hash: number, slot: number): void {
    const places = this.#places;
    let at = hash & this.#mask;
    while (places[2 * at + 1] !== 0) at = (at + 1) & this.#mask;
    places[2 * at] = hash;
    places[2 * at + 1] = slot + 1;
  }

  /** Those behind it move up into the gap, unless they would come to stand before their own place. */
  #unplace(slot: number): void {
    const places = this.#places;
    const mask = this.#mask;
    let gap = this.#hashes[slot]! & mask;
    while (places[2 * gap + 1] !== slot + 1) gap = (gap + 1) & mask;
    for (let at = (gap + 1) & mask; places[2 * at + 1] !== 0; at = (at + 1) & mask) {
      const home = places[2 * at]! & mask;
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      places[2 * gap] = places[2 * at]!;
      places[2 * gap + 1] = places[2 * at + 1]!;
      gap = at;
    }
    places[2 * gap] = 0;
    places[2 * gap + 1] = 0;
  }

  #grow(): void {
    const slots = 2 * this.#hashes.length;
    this.#hashes = widened(this.#hashes, new Int32Array(slots));
    this.#ends = widened(this.#ends, new Float64Array(slots));
    this.#weights = widened(this.#weights, new Int32Array(slots));
    this.#used = widened(this.#used, new Uint8Array(slots));
    this.#places = new Int32Array(2 * SPREAD * slots);
    this.#mask = SPREAD * slots - 1;
    for (let slot = 0; slot < this.#answers.length; slot += 1) {
      if (this.#owners[slot] !== null) this.#place(this.#hashes[slot]!, slot);
    }
  }
}

function widened<T extends Int32Array | Float64Array | Uint8Array>(from: T, to: T): T {
  to.set(from as never);
  return to;
}
