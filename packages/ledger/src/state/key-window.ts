import { hash } from 'node:crypto';
import type { KeyHash } from './key-hash.ts';
import {
  ageAt,
  heightAt,
  KEY_WORDS,
  KeyTable,
  type Location,
  positionAt,
  writeKey,
} from './key-table.ts';
import { digest, toHex } from './merkle-list.ts';

/** Keys used in one stretch of time, in the order in which they were used: the words of `KeyTable`'s slots. */
export interface KeyRun {
  /** The end of the stretch, in milliseconds of log time. */
  readonly until: number;
  readonly words: Int32Array;
}

/** How a key was used. */
export interface KeyUse extends Location {
  /** Log time. */
  readonly at: number;
  /** What was stored with it. */
  readonly more: readonly number[];
}

/** An age fits into one word. */
const LONGEST_INTERVAL_MS = 2 ** 31;
const FIRST_WORDS = 1_024;
const NOTHING: readonly number[] = [];

/**
 * Keys with the transaction that used each and when: part of the state. Whether a key was used is decided from
 * this alone, never from blocks, which may be trimmed.
 *
 * Time is log time, so every replica forgets the same keys at the same entry. Keys are kept by generation, one
 * for each cleanup interval, and a whole generation goes once its youngest key is out of the window. Each
 * generation has a hash chain over the keys of each block; `seal` gives one hash of all that is remembered.
 */
export class KeyWindow {
  readonly #generations: Generation[] = [];
  readonly #slotWords: number;
  #sealed: string | null = null;

  /** `moreWords`: how much is stored with each key. */
  constructor(moreWords = 0) {
    this.#slotWords = KEY_WORDS + moreWords;
  }

  get size(): number {
    return this.#generations.reduce((sum, { table }) => sum + table.size, 0);
  }

  /** The last use of a key, if that was at `since` or later. */
  find(key: KeyHash, since: number): KeyUse | undefined {
    // The youngest first: a key that was used again after its window is found where it was used last.
    for (let index = this.#generations.length - 1; index >= 0; index -= 1) {
      const { table, until } = this.#generations[index] as Generation;
      const words = table.find(key);
      if (words === undefined) continue;
      const at = until - ageAt(words, 0);
      if (at < since) return undefined;
      const more = [...words.subarray(KEY_WORDS)];
      return { height: heightAt(words, 0), position: positionAt(words, 0), at, more };
    }
    return undefined;
  }

  /** Keys of one block come one after the other, with the same time. */
  add(
    key: KeyHash,
    at: number,
    intervalMs: number,
    location: Location,
    more: readonly number[] = NOTHING,
  ): void {
    const generation = this.#generationOf(at, Math.min(intervalMs, LONGEST_INTERVAL_MS));
    const words = generation.reserve(this.#slotWords);
    const place = generation.length - this.#slotWords;
    writeKey(words, place, key, location, generation.until - at);
    for (let word = 0; word < more.length; word += 1) {
      words[place + KEY_WORDS + word] = more[word] as number;
    }
    generation.table.add(words, place);
    this.#sealed = null;
  }

  /** Drops what is wholly out of the window. */
  forget(now: number, ttlMs: number): void {
    while (this.#generations.length > 0) {
      if ((this.#generations[0] as Generation).until + ttlMs > now) return;
      this.#generations.shift();
      this.#sealed = null;
    }
  }

  /** Closes the block: one hash, in hex, of every key that is remembered. */
  seal(): string {
    if (this.#sealed !== null) return this.#sealed;
    // Only the youngest has new keys.
    this.#generations.at(-1)?.seal();
    const parts = this.#generations.map(
      ({ until, table, chain }) => `${until}:${table.size}:${toHex(chain)}`,
    );
    this.#sealed = toHex(digest(`V${parts.join(',')}`));
    return this.#sealed;
  }

  /** The keys added since this was last called. */
  takeFresh(): KeyRun[] {
    const runs: KeyRun[] = [];
    for (const generation of this.#generations) {
      const words = generation.takeFresh();
      if (words.length > 0) runs.push({ until: generation.until, words });
    }
    return runs;
  }

  /** The end of the oldest generation; runs that ended before it are worthless. */
  get oldest(): number {
    return this.#generations[0]?.until ?? Number.POSITIVE_INFINITY;
  }

  /** Takes back what was stored, oldest first. */
  restore({ until, words }: KeyRun): void {
    const generation = this.#generationUntil(until);
    const step = this.#slotWords;
    let start = 0;
    for (let at = 0; at + step <= words.length; at += step) {
      generation.table.add(words, at);
      const isLast = at + 2 * step > words.length;
      if (!isLast && heightAt(words, at + step) === heightAt(words, at)) continue;
      generation.extend(words.subarray(start, at + step));
      start = at + step;
    }
    this.#sealed = null;
  }

  #generationOf(at: number, intervalMs: number): Generation {
    const last = this.#generations.at(-1);
    if (last !== undefined && at < last.until) return last;
    return this.#generationUntil((Math.floor(at / intervalMs) + 1) * intervalMs);
  }

  #generationUntil(until: number): Generation {
    const last = this.#generations.at(-1);
    if (last?.until === until) return last;
    const generation = new Generation(until, this.#slotWords);
    this.#generations.push(generation);
    return generation;
  }
}

/** The keys of one stretch of time. */
class Generation {
  readonly until: number;
  readonly table: KeyTable;
  /** SHA-256 of `W`, this as it was before, and the words of one block. */
  chain = digest('W');
  /** Added since the last checkpoint. */
  #fresh = new Int32Array(FIRST_WORDS);
  length = 0;
  #sealedLength = 0;

  constructor(until: number, slotWords: number) {
    this.until = until;
    this.table = new KeyTable(slotWords);
  }

  /** Makes room for one more key, at the end of the words that it returns. */
  reserve(slotWords: number): Int32Array {
    this.length += slotWords;
    if (this.length > this.#fresh.length) {
      const words = new Int32Array(2 * this.#fresh.length);
      words.set(this.#fresh);
      this.#fresh = words;
    }
    return this.#fresh;
  }

  seal(): void {
    if (this.#sealedLength === this.length) return;
    this.extend(this.#fresh.subarray(this.#sealedLength, this.length));
    this.#sealedLength = this.length;
  }

  extend(words: Int32Array): void {
    const bytes = Buffer.allocUnsafe(1 + this.chain.length + words.byteLength);
    bytes.write('W', 'latin1');
    bytes.write(this.chain, 1, 'latin1');
    bytes.set(new Uint8Array(words.buffer, words.byteOffset, words.byteLength), 33);
    this.chain = hash('sha256', bytes, 'binary');
  }

  /** Called between two blocks. */
  takeFresh(): Int32Array {
    const words = this.#fresh.slice(0, this.length);
    if (this.length > 0) this.#fresh = new Int32Array(FIRST_WORDS);
    this.length = 0;
    this.#sealedLength = 0;
    return words;
  }
}
