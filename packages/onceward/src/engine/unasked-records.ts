import { KeyHash } from './key-hash.ts';
import type { OperationId } from './record.ts';
import type { EpochMs } from './units.ts';

const SHELF_BYTES = 65_536;
/** Longer ones would leave too much of a shelf empty. */
const LONGEST = SHELF_BYTES / 8;
const MOST_PLACES = 2 ** 20;
/** Of a place. */
const WIDTH = 4;

/** Lengths of scope (2 bytes) and key (2), end of retention (8), length of the record (4). These three follow. */
const HEAD = 16;

/** A piece of memory with entries side by side. To the collector of garbage it is one thing, and nothing to search. */
class Shelf {
  readonly bytes = new Uint8Array(SHELF_BYTES);
  readonly view = new DataView(this.bytes.buffer);
  used = 0;
  /** How many of its entries can still be found. */
  wanted = 0;
}

/**
 * Records that were just written and that nobody has asked for: nearly all of them, nearly always for good. So it costs
 * as little as may be to put one in: its bytes are copied to the end of the last shelf, and where they are is noted in
 * one of the two places that its hash has. The older of those that stood there is forgotten, and so is the oldest shelf
 * when there are too many.
 */
export class UnaskedRecords {
  readonly #scopeHash: KeyHash;
  readonly #keyHash: KeyHash;
  /** For each place: hash, number of the shelf plus one (0: none), where on it, nothing. Misses touch no shelf. */
  readonly #places: Int32Array;
  readonly #mask: number;
  readonly #shelves: Shelf[] = [];
  /** How many shelves there were before the first of these. */
  #gone = 0;
  #spare: Shelf | null = null;
  #count = 0;

  constructor(secret: string, maxEntries: number) {
    this.#scopeHash = new KeyHash(secret);
    this.#keyHash = new KeyHash(secret);
    // Twice as many as there are entries, so that few are forgotten for another's sake.
    const places = 2 ** Math.ceil(Math.log2(Math.max(2, 2 * maxEntries)));
    this.#places = new Int32Array(WIDTH * Math.min(places, MOST_PLACES));
    this.#mask = Math.min(places, MOST_PLACES) - 2;
  }

  get count(): number {
    return this.#count;
  }

  get byteLength(): number {
    return this.#shelves.length * SHELF_BYTES;
  }

  /** Copies the record. `false`: it is too long, or its id is not plain ASCII. */
  put(id: OperationId, record: Uint8Array, keepUntil: EpochMs): boolean {
    const { scope, key } = id;
    const size = HEAD + scope.length + key.length + record.length;
    if (size > LONGEST) return false;
    const shelf = this.#shelfFor(size);
    const at = shelf.used;
    const keyAt = at + HEAD + scope.length;
    if (!write(shelf.bytes, at + HEAD, scope) || !write(shelf.bytes, keyAt, key)) return false;
    shelf.view.setUint16(at, scope.length, true);
    shelf.view.setUint16(at + 2, key.length, true);
    shelf.view.setFloat64(at + 4, keepUntil, true);
    shelf.view.setUint32(at + 12, record.length, true);
    shelf.bytes.set(record, keyAt + key.length);
    shelf.used = at + size;
    const hash = this.#hashOf(id);
    const place = this.#olderOf(hash);
    this.#clear(place);
    this.#places[place] = hash;
    this.#places[place + 1] = this.#gone + this.#shelves.length;
    this.#places[place + 2] = at;
    shelf.wanted += 1;
    this.#count += 1;
    return true;
  }

  /** Takes the record of this operation out and gives it, unless its retention has ended. */
  take(id: OperationId, now: EpochMs): Uint8Array | null {
    const hash = this.#hashOf(id);
    const older = this.#olderOf(hash);
    const found = this.#takeFrom(older ^ WIDTH, id, hash, now);
    return found ?? this.#takeFrom(older, id, hash, now);
  }

  #takeFrom(place: number, id: OperationId, hash: number, now: EpochMs): Uint8Array | null {
    const shelf = this.#places[place] === hash ? this.#shelfAt(place) : null;
    if (shelf === null) return null;
    const at = this.#places[place + 2]!;
    const { bytes, view } = shelf;
    const { scope, key } = id;
    if (view.getUint16(at, true) !== scope.length) return null;
    if (view.getUint16(at + 2, true) !== key.length) return null;
    const keyAt = at + HEAD + scope.length;
    if (!stands(bytes, at + HEAD, scope) || !stands(bytes, keyAt, key)) return null;
    this.#clear(place);
    if (view.getFloat64(at + 4, true) <= now) return null;
    const from = keyAt + key.length;
    return bytes.slice(from, from + view.getUint32(at + 12, true));
  }

  /** Says how many were forgotten. There must be a shelf. */
  dropOldest(): number {
    const shelf = this.#shelves.shift() as Shelf;
    const { wanted } = shelf;
    this.#gone += 1;
    this.#count -= wanted;
    shelf.used = 0;
    shelf.wanted = 0;
    this.#spare = shelf;
    return wanted;
  }

  #shelfFor(size: number): Shelf {
    const last = this.#shelves.at(-1);
    if (last !== undefined && last.used + size <= SHELF_BYTES) return last;
    const shelf = this.#spare ?? new Shelf();
    this.#spare = null;
    this.#shelves.push(shelf);
    return shelf;
  }

  /** The shelf of the entry that is noted in this place, if it is still there. */
  #shelfAt(place: number): Shelf | null {
    const number = this.#places[place + 1]! - 1 - this.#gone;
    return number < 0 ? null : this.#shelves[number]!;
  }

  /** That of its two places which is empty, or has the older entry. */
  #olderOf(hash: number): number {
    const places = this.#places;
    const one = WIDTH * (hash & this.#mask);
    const other = one + WIDTH;
    const shelves = places[one + 1]! - places[other + 1]!;
    return (shelves || places[one + 2]! - places[other + 2]!) <= 0 ? one : other;
  }

  #clear(place: number): void {
    const shelf = this.#shelfAt(place);
    this.#places[place + 1] = 0;
    if (shelf === null) return;
    shelf.wanted -= 1;
    this.#count -= 1;
  }

  #hashOf({ scope, key }: OperationId): number {
    return this.#keyHash.of(key, this.#scopeHash.of(scope, 0));
  }
}

function write(bytes: Uint8Array, at: number, text: string): boolean {
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit > 127) return false;
    bytes[at + i] = unit;
  }
  return true;
}

function stands(bytes: Uint8Array, at: number, text: string): boolean {
  for (let i = 0; i < text.length; i += 1) {
    if (bytes[at + i] !== text.charCodeAt(i)) return false;
  }
  return true;
}
