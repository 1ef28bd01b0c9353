import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { LmdbDamage, type LmdbNode, LmdbPage } from './lmdb-page.ts';

/**
 * Reads the file of an LMDB environment without mapping it, locking it or writing to it, and trusts no byte of it.
 *
 * LMDB itself believes what its pages say: a garbled one can lead it outside of its map, and the process ends with
 * a signal. So a file is walked here first, and only one whose every page makes sense is given to LMDB. The
 * values are not read: they have hashes and checksums of their own.
 *
 *   page    number 8 · transaction 8 · pad 2 · flags 2 · lower 2 · upper 2 (or overflow pages 4) · content
 *   meta    magic 4 · version 4 · address 8 · map size 8 · two trees (free pages, main) · last page 8 · transaction 8
 *   tree    pad 4 · flags 2 · depth 2 · branch, leaf and overflow pages 8 each · entries 8 · root 8
 */
const META_AT = 24;
const MAGIC = 0xbeefc0de;
const VERSION = 2;
const METAS = 2;
const NO_PAGE = 0xffff_ffff_ffff_ffffn;
const META_FLAG = 0x08;
const INTEGER_KEYS = 0x08;
const PAGE_SIZES = [4_096, 8_192, 16_384, 32_768, 65_536];
/** Trees of LMDB are never deeper. */
const MAX_DEPTH = 32;

interface Tree {
  readonly hasIntegerKeys: boolean;
  readonly depth: number;
  readonly entries: number;
  readonly root: number | null;
}

export interface LmdbEntry {
  readonly key: Buffer;
  readonly value: Buffer;
}

export class LmdbFile {
  readonly #file: number;
  readonly #pageSize: number;
  readonly #pageCount: number;
  readonly #lastPage: number;
  readonly #free: Tree;
  readonly #main: Tree;

  private constructor(file: number) {
    this.#file = file;
    const { size } = fstatSync(file);
    const first = read(file, 0, META_AT + 144);
    this.#pageSize = first.readUInt32LE(META_AT + 24);
    if (!PAGE_SIZES.includes(this.#pageSize)) throw new LmdbDamage(0, 'has no valid page size');
    this.#pageCount = Math.floor(size / this.#pageSize);
    const metas = Array.from({ length: METAS }, (_, page) => this.#meta(page));
    const meta = metas.reduce((a, b) => (b.transaction > a.transaction ? b : a));
    this.#lastPage = meta.lastPage;
    this.#free = meta.free;
    this.#main = meta.main;
  }

  /** `null` if there is no such file, or nothing was ever written to it. */
  static open(path: string): LmdbFile | null {
    let file: number;
    try {
      file = openSync(path, 'r');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw error;
    }
    try {
      if (fstatSync(file).size > 0) return new LmdbFile(file);
      closeSync(file);
      return null;
    } catch (error) {
      closeSync(file);
      throw error;
    }
  }

  close(): void {
    closeSync(this.#file);
  }

  /** Walks every page of every tree, that of the free pages included. Throws `LmdbDamage` at the first bad one. */
  check(): void {
    const seen = this.#newSeen();
    for (const { value } of this.#walk(this.#main, { seen })) {
      if (value.length !== TREE_BYTES) throw new LmdbDamage(0, 'leads to a tree that is none');
      for (const _ of this.#walk(readTree(value, 0), { seen, skipValues: true }));
    }
    for (const { value } of this.#walk(this.#free, { seen })) this.#checkFree(value, seen);
  }

  /** What is stored under a name, in the order of its keys. */
  *entries(name: string): Generator<LmdbEntry> {
    for (const { key, value } of this.#walk(this.#main, { seen: this.#newSeen() })) {
      if (key.toString() !== `${name}\0` || value.length !== TREE_BYTES) continue;
      yield* this.#walk(readTree(value, 0), { seen: this.#newSeen() });
      return;
    }
  }

  #meta(page: number) {
    const bytes = this.#readPages(page, 1);
    if ((bytes.readUInt16LE(18) & META_FLAG) === 0 || bytes.readUInt32LE(META_AT) !== MAGIC) {
      throw new LmdbDamage(page, 'is no meta page');
    }
    if ((bytes.readUInt32LE(META_AT + 4) & 0xffff) !== VERSION) {
      throw new LmdbDamage(page, 'is of another version');
    }
    return {
      free: readTree(bytes, META_AT + 24),
      main: readTree(bytes, META_AT + 24 + TREE_BYTES),
      lastPage: toNumber(bytes, META_AT + 24 + 2 * TREE_BYTES, page),
      transaction: bytes.readBigUInt64LE(META_AT + 24 + 2 * TREE_BYTES + 8),
    };
  }

  *#walk(tree: Tree, walk: Walk): Generator<LmdbEntry> {
    if (tree.root === null) {
      if (tree.entries !== 0) throw new LmdbDamage(0, 'names an empty tree with entries');
      return;
    }
    if (tree.depth > MAX_DEPTH) throw new LmdbDamage(tree.root, 'is too deep');
    let count = 0;
    let before: Buffer | null = null;
    for (const entry of this.#visit(tree.root, tree.depth, walk)) {
      count += 1;
      if (before !== null && compare(before, entry.key, tree.hasIntegerKeys) >= 0) {
        throw new LmdbDamage(tree.root, 'has keys out of order');
      }
      before = entry.key;
      yield entry;
    }
    if (count !== tree.entries) throw new LmdbDamage(tree.root, 'has lost entries');
  }

  *#visit(number: number, depth: number, walk: Walk): Generator<LmdbEntry> {
    this.#claim(walk.seen, number, 1);
    const page = new LmdbPage(number, this.#readPages(number, 1));
    if (page.isLeaf !== (depth === 1)) throw new LmdbDamage(number, 'is at the wrong depth');
    for (let index = 0; index < page.count; index += 1) {
      if (!page.isLeaf) {
        yield* this.#visit(page.childAt(index), depth - 1, walk);
        continue;
      }
      const node = page.nodeAt(index);
      yield { key: node.key, value: this.#valueOf(number, node, walk) };
    }
  }

  #valueOf(number: number, { inline, overflow }: LmdbNode, { seen, skipValues }: Walk): Buffer {
    if (inline !== undefined) return inline;
    const { page, pages, length } = overflow;
    const needed = Math.ceil((META_AT + length) / this.#pageSize);
    // A value that took the place of a longer one has pages to spare.
    if (!(pages >= needed)) throw new LmdbDamage(number, 'names too few pages for a value');
    this.#claim(seen, page, pages);
    const bytes = this.#readPages(page, skipValues === true ? 1 : pages);
    LmdbPage.checkOverflow(page, pages, bytes);
    return bytes.subarray(META_AT, META_AT + length);
  }

  /**
   * A record of the list: how many words, then the numbers of pages. A negative word is the length of a run whose
   * first page comes next; a zero is nothing.
   */
  #checkFree(value: Buffer, seen: Uint8Array): void {
    const damage = new LmdbDamage(this.#free.root ?? 0, 'leads to a bad list of free pages');
    const count = value.length < 8 ? -1 : toNumber(value, 0, 0);
    if (count < 0 || value.length < 8 * (count + 1)) throw damage;
    for (let index = 1; index <= count; index += 1) {
      const word = Number(value.readBigInt64LE(8 * index));
      if (word === 0) continue;
      if (word < 0) index += 1;
      if (index > count) throw damage;
      const first = word > 0 ? word : Number(value.readBigInt64LE(8 * index));
      const end = first + (word > 0 ? 1 : -word);
      if (!(first >= METAS && end <= this.#lastPage + 1)) throw damage;
      if (seen.subarray(first, end).includes(1)) throw damage;
    }
  }

  /** Each page belongs to one tree. */
  #claim(seen: Uint8Array, first: number, count: number): void {
    const end = Math.min(this.#lastPage + 1, this.#pageCount);
    if (!(first >= METAS && first + count <= end)) {
      throw new LmdbDamage(first, 'is named, and is not there');
    }
    for (let page = first; page < first + count; page += 1) {
      if (seen[page] === 1) throw new LmdbDamage(page, 'is used twice');
      seen[page] = 1;
    }
  }

  #newSeen(): Uint8Array {
    return new Uint8Array(this.#lastPage + 1);
  }

  #readPages(first: number, count: number): Buffer {
    return read(this.#file, first * this.#pageSize, count * this.#pageSize);
  }
}

interface Walk {
  /** One for each page that was met. */
  readonly seen: Uint8Array;
  /** Only the first page of a long value is read. */
  readonly skipValues?: boolean;
}

const TREE_BYTES = 48;

function readTree(bytes: Buffer, at: number): Tree {
  const root = bytes.readBigUInt64LE(at + 40);
  return {
    hasIntegerKeys: (bytes.readUInt16LE(at + 4) & INTEGER_KEYS) !== 0,
    depth: bytes.readUInt16LE(at + 6),
    entries: toNumber(bytes, at + 32, 0),
    root: root === NO_PAGE ? null : Number(root),
  };
}

function toNumber(bytes: Buffer, at: number, page: number): number {
  const value = bytes.readBigUInt64LE(at);
  if (value > 2n ** 40n) throw new LmdbDamage(page, 'has a number that is too large');
  return Number(value);
}

function read(file: number, position: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  if (readSync(file, bytes, 0, length, position) < length) {
    throw new LmdbDamage(0, `begins a file that ends before byte ${position + length}`);
  }
  return bytes;
}

function compare(a: Buffer, b: Buffer, isInteger: boolean): number {
  if (!isInteger) return a.compare(b);
  if (a.length !== b.length) return a.length - b.length;
  return Buffer.from(a).reverse().compare(Buffer.from(b).reverse());
}
