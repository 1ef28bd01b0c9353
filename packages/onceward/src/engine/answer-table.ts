import { checksumText } from './checksum.ts';
import type { NearAnswer } from './near-tier.ts';
import type { OperationId } from './record.ts';
import type { EpochMs } from './units.ts';

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
 *
 * The hash is HalfSipHash under a secret: whoever chooses keys cannot make them meet in one place.
 */
export class AnswerTable {
  readonly #scopes = new Map<string, Scope>();
  readonly #secret: readonly [number, number];
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
  readonly #answers: (NearAnswer | null)[] = [];
  /** Slots that are empty again; the last one is filled first. */
  readonly #empty: number[] = [];
  #hand = 0;
  /** The hash of an id is asked for more than once in a row. */
  readonly #hashed = { key: '', salt: 0, hash: 0 };
  #count = 0;
  #weight = 0;

  constructor(secret: string) {
    const half = secret.length >> 1;
    this.#secret = [checksumText(secret.slice(0, half), 1), checksumText(secret.slice(half), 2)];
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
    const hash = this.#hash(id.key, scope.salt);
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
      if (this.#answers[slot] === null) continue;
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
    const hash = this.#hash(key, scope.salt);
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
      if (this.#answers[slot] !== null) this.#place(this.#hashes[slot]!, slot);
    }
  }

  #hash(key: string, salt: number): number {
    const last = this.#hashed;
    if (last.key !== key || last.salt !== salt) {
      last.hash = this.#halfSip(key, salt);
      last.key = key;
      last.salt = salt;
    }
    return last.hash;
  }

  /** HalfSipHash-1-3, two UTF-16 code units a word. */
  #halfSip(key: string, salt: number): number {
    let v0 = this.#secret[0];
    let v1 = this.#secret[1] ^ salt;
    let v2 = v0 ^ 0x6c796765;
    let v3 = v1 ^ 0x74656462;
    const last = key.length & ~1;
    // Three rounds without a word come after the last one.
    for (let i = 0; i <= last + 6; i += 2) {
      let word = 0;
      if (i < last) word = key.charCodeAt(i) | (key.charCodeAt(i + 1) << 16);
      else if (i === last) word = (key.length << 24) | (i < key.length ? key.charCodeAt(i) : 0);
      else if (i === last + 2) v2 ^= 0xff;
      v3 ^= word;
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
      v0 ^= word;
    }
    return v1 ^ v3;
  }
}

function widened<T extends Int32Array | Float64Array | Uint8Array>(from: T, to: T): T {
  to.set(from as never);
  return to;
}
