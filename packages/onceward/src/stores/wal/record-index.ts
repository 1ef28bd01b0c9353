import { SlotShards } from '../slots.ts';

/**
 * Where each record is, without an object per record: rows of columns in chunks, and hash tables that point to rows.
 *
 * A row keeps its number for as long as its record lives. Chunks are never copied.
 */
const CHUNK_BITS = 14;
const CHUNK_ROWS = 1 << CHUNK_BITS;
const CHUNK_MASK = CHUNK_ROWS - 1;
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

/** A write of this record is in flight. */
export const BUSY = 1;
/** The stored bytes do not match their checksum. */
export const DAMAGED = 2;

export class RecordIndex {
  readonly #chunks: Chunk[] = [];
  /** By the second hash; the first one chooses the table. */
  readonly #shards = new SlotShards();
  #freeRow = NONE;
  #rows = 0;

  /** Rows are numbered below this; some of them are free. */
  get rows(): number {
    return this.#rows;
  }

  /** A row with this hash that is not among `others` at the revision noted there, or -1. */
  find(hash1: number, hash2: number, others: ReadonlyMap<number, number> | null = null): number {
    const slots = this.#shards.of(hash1);
    const wanted = hash2 | 0;
    for (let at = slots.first(wanted); at >= 0; at = slots.next(wanted, at)) {
      const row = slots.rowAt(at);
      if ((this.#chunk(row).hash1[row & CHUNK_MASK] as number) !== hash1) continue;
      if (others === null || others.get(row) !== this.revision(row)) return row;
    }
    return -1;
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
    this.#shards.of(hash1).add(hash2 | 0, row);
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
    this.#shards.of(chunk.hash1[at] as number).remove((chunk.hash2[at] as number) | 0, row);
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
