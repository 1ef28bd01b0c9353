import { KeyTable, type Location, packLocation, SLOT_WORDS } from './key-table.ts';

/** Keys used in one stretch of time, as they are stored: the words of `KeyTable`'s slots. */
export interface KeyRun {
  /** The end of the stretch, in milliseconds of log time. */
  readonly until: number;
  readonly words: Uint32Array;
}

interface Generation {
  readonly until: number;
  readonly table: KeyTable;
  /** Added since the last checkpoint. */
  fresh: number[];
}

/**
 * The idempotency keys of the last hour or so, each with the transaction that used it.
 *
 * Time is log time, so every replica forgets the same keys at the same entry. Keys are kept by generation, one
 * for each cleanup interval, and a whole generation goes once its youngest key is out of the window.
 */
export class KeyWindow {
  readonly #generations: Generation[] = [];
  readonly #seed: number;

  /** The seed makes it impossible to choose keys that collide; it is the same on every replica. */
  constructor(seed: number) {
    this.#seed = seed;
  }

  get size(): number {
    return this.#generations.reduce((sum, { table }) => sum + table.size, 0);
  }

  /** Where a key may have been used: `isSame` must compare the key itself, since hashes can collide. */
  find(scope: string, key: string, isSame: (location: Location) => boolean): Location | undefined {
    if (this.#generations.length === 0) return undefined;
    const low = hashKey(scope, key, this.#seed);
    const high = hashKey(scope, key, low ^ HIGH);
    // The youngest first: a key that was used again after its window is found where it was used last.
    for (let at = this.#generations.length - 1; at >= 0; at -= 1) {
      const found = (this.#generations[at] as Generation).table.find(low, high).find(isSame);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  add(scope: string, key: string, at: number, intervalMs: number, location: Location): void {
    const low = hashKey(scope, key, this.#seed);
    const high = hashKey(scope, key, low ^ HIGH);
    const generation = this.#generationOf(at, intervalMs);
    const [height, place] = packLocation(location);
    generation.table.add(low, high, height, place);
    generation.fresh.push(low, high, height, place);
  }

  /** Drops what is wholly out of the window. */
  forget(now: number, ttlMs: number): void {
    while (this.#generations.length > 0) {
      if ((this.#generations[0] as Generation).until + ttlMs > now) return;
      this.#generations.shift();
    }
  }

  /** The keys added since this was last called. */
  takeFresh(): KeyRun[] {
    const runs: KeyRun[] = [];
    for (const generation of this.#generations) {
      if (generation.fresh.length === 0) continue;
      runs.push({ until: generation.until, words: Uint32Array.from(generation.fresh) });
      generation.fresh = [];
    }
    return runs;
  }

  /** The end of the oldest generation; runs that ended before it are worthless. */
  get oldest(): number {
    return this.#generations[0]?.until ?? Number.POSITIVE_INFINITY;
  }

  /** Takes back what was stored, oldest first. */
  restore({ until, words }: KeyRun): void {
    const { table } = this.#generationUntil(until);
    for (let at = 0; at < words.length; at += SLOT_WORDS) {
      const low = words[at] as number;
      table.add(low, words[at + 1] as number, words[at + 2] as number, words[at + 3] as number);
    }
  }

  #generationOf(at: number, intervalMs: number): Generation {
    const last = this.#generations.at(-1);
    if (last !== undefined && at < last.until) return last;
    return this.#generationUntil((Math.floor(at / intervalMs) + 1) * intervalMs);
  }

  #generationUntil(until: number): Generation {
    const last = this.#generations.at(-1);
    if (last?.until === until) return last;
    const generation: Generation = { until, table: new KeyTable(), fresh: [] };
    this.#generations.push(generation);
    return generation;
  }
}

const HIGH = 0x5bd1e995;

/** Mixes scope and key, with a mark between them, into 32 bits. */
function hashKey(scope: string, key: string, seed: number): number {
  let hash = seed ^ scope.length;
  for (let at = 0; at < scope.length; at += 1) hash = mix(hash, scope.charCodeAt(at));
  hash = mix(hash, 0x10000);
  for (let at = 0; at < key.length; at += 1) hash = mix(hash, key.charCodeAt(at));
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}

function mix(hash: number, word: number): number {
  const turned = Math.imul(hash ^ Math.imul(word + 1, 0xcc9e2d51), 0x1b873593);
  return turned ^ (turned >>> 15);
}
