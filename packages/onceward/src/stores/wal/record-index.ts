/**
 * Where each record is, without an object per record: rows of columns in chunks, and hash tables that point to rows.
 *
 * A row keeps its number for as long as its record lives. Chunks are never copied, and the hash table is cut into
 * shards that grow one by one, so that no call pays for the growth of all.
 */
const CHUNK_BITS = 14;
const CHUNK_ROWS = 1 << CHUNK_BITS;
const CHUNK_MASK = CHUNK_ROWS - 1;
const SHARDS = 256;
const FIRST_SLOTS = 16;
const NONE = 0xffff_ffff;

/** States as stored. `FREE` rows hold nothing; `UNBORN` ones a claim that is not yet durable. */
export const FREE = 0;
export const UNBORN = 5;

class Chunk {
  readonly hash1 = new Uint32Array(CHUNK_ROWS);
  readonly hash2 = new Uint32Array(CHUNK_ROWS);
  readonly scopeHash = new Uint32Array(CHUNK_ROWS);
  readonly segment = new Uint32Array(CHUNK_ROWS);
  readonly offset = new Uint32Array(CHUNK_ROWS);
  readonly byteLength = new Uint32Array(CHUNK_ROWS);
  readonly revision = new Float64Array(CHUNK_ROWS);
  readonly dueAt = new Float64Array(CHUNK_ROWS);
  readonly state = new Uint8Array(CHUNK_ROWS);
  readonly flags = new Uint8Array(CHUNK_ROWS);
}

class Shard {
  /** Pairs: the second hash, and the row plus one (zero: empty). */
  slots = new Uint32Array(2 * FIRST_SLOTS);
  used = 0;
}

/** A write of this record is under way. */
export const BUSY = 1;
/** The stored bytes do not match their checksum. */
export const DAMAGED = 2;

export class RecordIndex {
  readonly #chunks: Chunk[] = [];
  readonly #shards = Array.from({ length: SHARDS }, () => new Shard());
  #freeRow = NONE;
  #rows = 0;

  /** Rows are numbered below this; some of them are free. */
  get rows(): number {
    return this.#rows;
  }

  /** A row with this hash that is not among `others` at the revision noted there, or -1. */
  find(hash1: number, hash2: number, others: ReadonlyMap<number, number> | null = null): number {
    const { slots } = this.#shards[hash1 >>> 24] as Shard;
    const mask = (slots.length >>> 1) - 1;
    for (let slot = hash2 & mask; ; slot = (slot + 1) & mask) {
      const row = (slots[2 * slot + 1] as number) - 1;
      if (row < 0) return -1;
      if (slots[2 * slot] !== hash2) continue;
      if ((this.#chunk(row).hash1[row & CHUNK_MASK] as number) !== hash1) continue;
      if (others === null || others.get(row) !== this.revision(row)) return row;
    }
  }

  /** A row with this hash and revision, or -1. */
  findRevision(hash1: number, hash2: number, revision: number): number {
    let row = this.find(hash1, hash2);
    if (row < 0 || this.revision(row) === revision) return row;
    const others = new Map<number, number>();
    while (row >= 0 && this.revision(row) !== revision) {
      others.set(row, this.revision(row));
      row = this.find(hash1, hash2, others);
    }
    return row;
  }

  insert(hash1: number, hash2: number, scopeHash: number, revision: number): number {
    const row = this.#takeRow();
    const chunk = this.#chunk(row);
    const at = row & CHUNK_MASK;
    chunk.hash1[at] = hash1;
    chunk.hash2[at] = hash2;
    chunk.scopeHash[at] = scopeHash;
    chunk.revision[at] = revision;
    chunk.state[at] = UNBORN;
    chunk.flags[at] = 0;
    const shard = this.#shards[hash1 >>> 24] as Shard;
    if (3 * ++shard.used > shard.slots.length) grow(shard);
    place(shard.slots, hash2, row);
    return row;
  }

  /** Says where the record now is. */
  settle(
    row: number,
    revision: number,
    state: number,
    dueAt: number,
    segment: number,
    offset: number,
    byteLength: number,
  ): void {
    const chunk = this.#chunk(row);
    const at = row & CHUNK_MASK;
    chunk.revision[at] = revision;
    chunk.state[at] = state;
    chunk.dueAt[at] = dueAt;
    chunk.segment[at] = segment;
    chunk.offset[at] = offset;
    chunk.byteLength[at] = byteLength;
  }

  remove(row: number): void {
    const chunk = this.#chunk(row);
    const at = row & CHUNK_MASK;
    const shard = this.#shards[(chunk.hash1[at] as number) >>> 24] as Shard;
    shard.used--;
    displace(shard.slots, chunk.hash2[at] as number, row);
    chunk.state[at] = FREE;
    chunk.flags[at] = 0;
    chunk.segment[at] = this.#freeRow;
    this.#freeRow = row;
  }

  revision(row: number): number {
    return this.#chunk(row).revision[row & CHUNK_MASK] as number;
  }

  state(row: number): number {
    return this.#chunk(row).state[row & CHUNK_MASK] as number;
  }

  dueAt(row: number): number {
    return this.#chunk(row).dueAt[row & CHUNK_MASK] as number;
  }

  scopeHash(row: number): number {
    return this.#chunk(row).scopeHash[row & CHUNK_MASK] as number;
  }

  hash1(row: number): number {
    return this.#chunk(row).hash1[row & CHUNK_MASK] as number;
  }

  hash2(row: number): number {
    return this.#chunk(row).hash2[row & CHUNK_MASK] as number;
  }

  segment(row: number): number {
    return this.#chunk(row).segment[row & CHUNK_MASK] as number;
  }

  offset(row: number): number {
    return this.#chunk(row).offset[row & CHUNK_MASK] as number;
  }

  byteLength(row: number): number {
    return this.#chunk(row).byteLength[row & CHUNK_MASK] as number;
  }

  hasFlag(row: number, flag: number): boolean {
    return ((this.#chunk(row).flags[row & CHUNK_MASK] as number) & flag) !== 0;
  }

  setFlag(row: number, flag: number): void {
    const { flags } = this.#chunk(row);
    flags[row & CHUNK_MASK] = (flags[row & CHUNK_MASK] as number) | flag;
  }

  clearFlag(row: number, flag: number): void {
    const { flags } = this.#chunk(row);
    flags[row & CHUNK_MASK] = (flags[row & CHUNK_MASK] as number) & ~flag;
  }

  #chunk(row: number): Chunk {
    return this.#chunks[row >>> CHUNK_BITS] as Chunk;
  }

  #takeRow(): number {
    if (this.#freeRow === NONE) {
      const row = this.#rows++;
      if ((row & CHUNK_MASK) === 0) this.#chunks.push(new Chunk());
      return row;
    }
    const row = this.#freeRow;
    this.#freeRow = this.segment(row);
    return row;
  }
}

function place(slots: Uint32Array, hash2: number, row: number): void {
  const mask = (slots.length >>> 1) - 1;
  let slot = hash2 & mask;
  while (slots[2 * slot + 1] !== 0) slot = (slot + 1) & mask;
  slots[2 * slot] = hash2;
  slots[2 * slot + 1] = row + 1;
}

/** Takes a row out and moves up those behind it that would otherwise no longer be found. */
function displace(slots: Uint32Array, hash2: number, row: number): void {
  const mask = (slots.length >>> 1) - 1;
  let gap = hash2 & mask;
  while (slots[2 * gap + 1] !== row + 1) gap = (gap + 1) & mask;
  for (let slot = (gap + 1) & mask; slots[2 * slot + 1] !== 0; slot = (slot + 1) & mask) {
    const home = (slots[2 * slot] as number) & mask;
    if (((slot - home) & mask) < ((slot - gap) & mask)) continue;
    slots[2 * gap] = slots[2 * slot] as number;
    slots[2 * gap + 1] = slots[2 * slot + 1] as number;
    gap = slot;
  }
  slots[2 * gap] = 0;
  slots[2 * gap + 1] = 0;
}

function grow(shard: Shard): void {
  const old = shard.slots;
  const slots = new Uint32Array(2 * old.length);
  for (let at = 0; at < old.length; at += 2) {
    const row = (old[at + 1] as number) - 1;
    if (row >= 0) place(slots, old[at] as number, row);
  }
  shard.slots = slots;
}
