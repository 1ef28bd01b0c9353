import {
  type Bucket,
  bucketText,
  hashBucket,
  insertRow,
  joinPage,
  PAGE_BUCKETS,
  type Row,
  type RowValue,
  rowLine,
  splitPage,
} from './bucket.ts';
import { addressOf, bucketOf, splitSource } from './bucket-address.ts';
import { digest, MerkleList, type MerklePath, toHex } from './merkle-list.ts';

/** Rows per bucket before a bucket is added. Few, because a changed row costs the hash of its whole bucket. */
const ROWS_PER_BUCKET = 4;

/** Where pages come from that are not in memory. */
export interface PageSource {
  readPage(page: number): string | undefined;
}

export interface RowProof {
  readonly bucketCount: number;
  /** The text of the bucket where the key belongs: it shows the row, or that there is none. */
  readonly bucket: string;
  readonly path: MerklePath;
}

/**
 * Everything the ledger knows besides accounts and keys, as rows, and one hash of them all.
 *
 * A row lies in a bucket by the hash of its key; the buckets are the leaves of a Merkle tree whose top, with
 * the number of buckets, is the root. So the root costs a few hashes per changed row, whatever the number
 * of rows, and short proofs that a key has a value or has none.
 *
 * Writes go to rows in memory at once and can be undone until `seal` brings them into buckets and gives the new
 * root. The rows last used are kept in memory; others are read back a page at a time.
 */
export class RowTable {
  readonly #source: PageSource;
  /** By index. A string is a bucket as it was read, not yet taken apart; `undefined` is one not in memory. */
  readonly #buckets: (Bucket | string | undefined)[] = [];
  /** The pages in memory, those read first going first. */
  readonly #pages = new Set<number>();
  readonly #dirtyPages = new Set<number>();
  /** Taken to be saved, and not yet known to be: the source may still have them as they were. */
  readonly #savingPages = new Set<number>();
  readonly #rowLimit: number;
  readonly #rows = new Map<string, Row>();
  readonly #tree = new MerkleList();
  readonly #touched = new Set<Row>();
  readonly #undo: { readonly row: Row; readonly value: RowValue | undefined }[] = [];
  #rowCount = 0;
  #root = '';
  #isSealing = false;

  constructor(source: PageSource, rowLimit = Number.POSITIVE_INFINITY) {
    this.#source = source;
    this.#rowLimit = rowLimit;
  }

  /** An empty table has one empty bucket. */
  static empty(source: PageSource, rowLimit?: number): RowTable {
    const table = new RowTable(source, rowLimit);
    table.#addBucket();
    table.#root = table.#computeRoot();
    return table;
  }

  /** Takes the texts of all pages in order, checks nothing, and computes the root they have. */
  static load(
    source: PageSource,
    pages: Iterable<string>,
    visit: (bucket: string) => void = () => {},
    rowLimit?: number,
  ): RowTable {
    const table = new RowTable(source, rowLimit);
    for (const text of pages) {
      for (const bucket of splitPage(text)) {
        table.#tree.set(table.#tree.length, hashBucket(bucket));
        table.#buckets.push(undefined);
        visit(bucket);
      }
    }
    table.#root = table.#computeRoot();
    return table;
  }

  get root(): string {
    return this.#root;
  }

  get rowCount(): number {
    return this.#rowCount;
  }

  /** Known from the checkpoint that the pages belong to. */
  set rowCount(count: number) {
    this.#rowCount = count;
  }

  get rowsInMemory(): number {
    return this.#rows.size;
  }

  read<T extends RowValue>(key: string): T | undefined {
    return this.#find(key)?.value as T | undefined;
  }

  write(key: string, value: RowValue): void {
    const row = this.#find(key) ?? this.#newRow(key);
    this.#undo.push({ row, value: row.value });
    row.value = value;
    this.#touched.add(row);
  }

  remove(key: string): void {
    const row = this.#find(key);
    if (row?.value === undefined) return;
    this.#undo.push({ row, value: row.value });
    row.value = undefined;
    this.#touched.add(row);
  }

  /** A place to come back to with `undoTo`, until the next seal. */
  mark(): number {
    return this.#undo.length;
  }

  undoTo(mark: number): void {
    while (this.#undo.length > mark) {
      const { row, value } = this.#undo.pop() as { row: Row; value: RowValue | undefined };
      row.value = value;
    }
  }

  /** Brings what was written into the tree; the new root stands for it. */
  seal(): string {
    this.#isSealing = true;
    const changed = new Set<number>();
    for (const row of this.#touched) this.#settle(row, changed);
    this.#touched.clear();
    this.#undo.length = 0;
    while (this.#rowCount > ROWS_PER_BUCKET * this.#tree.length) this.#split(changed);
    for (const index of changed) {
      this.#tree.set(index, hashBucket(this.#bucket(index)));
      this.#dirtyPages.add(Math.floor(index / PAGE_BUCKETS));
    }
    if (changed.size > 0) this.#root = this.#computeRoot();
    this.#isSealing = false;
    return this.#root;
  }

  /** Against the root of the last seal. */
  prove(key: string): RowProof {
    const index = bucketOf(addressOf(key), this.#tree.length);
    return {
      bucketCount: this.#tree.length,
      bucket: bucketText(this.#bucket(index)),
      path: this.#tree.path(index),
    };
  }

  /** The pages that changed since they were last taken, as texts. They are being saved until `saved` is called. */
  takeDirtyPages(): Map<number, string> {
    const taken = new Map<number, string>();
    for (const page of this.#dirtyPages) {
      const first = page * PAGE_BUCKETS;
      const buckets = this.#buckets.slice(first, first + PAGE_BUCKETS) as (Bucket | string)[];
      taken.set(page, joinPage(buckets));
      this.#savingPages.add(page);
    }
    this.#dirtyPages.clear();
    return taken;
  }

  /** The source has what was taken. */
  saved(): void {
    this.#savingPages.clear();
    this.#shrink();
  }

  /** Forgets pages that can be read back, until few enough rows are in memory. Never while rows are being changed. */
  #shrink(): void {
    if (this.#rows.size <= this.#rowLimit || this.#touched.size > 0 || this.#isSealing) return;
    for (const page of this.#pages) {
      if (this.#rows.size <= this.#rowLimit * 0.75) return;
      if (this.#dirtyPages.has(page) || this.#savingPages.has(page)) continue;
      this.#pages.delete(page);
      const end = Math.min((page + 1) * PAGE_BUCKETS, this.#buckets.length);
      for (let index = page * PAGE_BUCKETS; index < end; index += 1) {
        const bucket = this.#buckets[index];
        if (typeof bucket === 'object') for (const row of bucket) this.#rows.delete(row.key);
        this.#buckets[index] = undefined;
      }
    }
  }

  #computeRoot(): string {
    return toHex(digest(`R${this.#tree.length}:${toHex(this.#tree.top())}`));
  }

  #find(key: string): Row | undefined {
    const row = this.#rows.get(key);
    if (row !== undefined) return row;
    // Taking the bucket apart puts its rows where they are found from now on.
    this.#bucket(bucketOf(addressOf(key), this.#tree.length));
    return this.#rows.get(key);
  }

  #newRow(key: string): Row {
    const row: Row = { key, address: addressOf(key), value: undefined, line: '' };
    this.#rows.set(key, row);
    return row;
  }

  #settle(row: Row, changed: Set<number>): void {
    const index = bucketOf(row.address, this.#tree.length);
    const bucket = this.#bucket(index);
    if (row.value === undefined) {
      this.#rows.delete(row.key);
      if (row.line === '') return;
      bucket.splice(bucket.indexOf(row), 1);
      row.line = '';
      this.#rowCount -= 1;
    } else {
      const isNew = row.line === '';
      row.line = rowLine(row.key, row.value);
      if (isNew) {
        insertRow(bucket, row);
        this.#rowCount += 1;
      }
    }
    changed.add(index);
  }

  #split(changed: Set<number>): void {
    const added = this.#tree.length;
    const source = splitSource(added);
    const before = this.#bucket(source);
    const bucket = this.#addBucket();
    const staying: Row[] = [];
    for (const row of before) {
      (bucketOf(row.address, added + 1) === added ? bucket : staying).push(row);
    }
    this.#buckets[source] = staying;
    changed.add(source).add(added);
  }

  #addBucket(): Bucket {
    const index = this.#tree.length;
    const bucket: Bucket = [];
    const page = Math.floor(index / PAGE_BUCKETS);
    if (index % PAGE_BUCKETS === 0) this.#pages.add(page);
    else this.#loadPage(page);
    this.#buckets[index] = bucket;
    this.#tree.set(index, hashBucket(bucket));
    this.#dirtyPages.add(page);
    return bucket;
  }

  #bucket(index: number): Bucket {
    if (this.#buckets[index] === undefined) this.#loadPage(Math.floor(index / PAGE_BUCKETS));
    const found = this.#buckets[index] as Bucket | string;
    if (typeof found !== 'string') return found;
    const bucket: Bucket = [];
    for (const [key, value] of JSON.parse(found) as [string, RowValue][]) {
      const row = { key, address: addressOf(key), value, line: rowLine(key, value) };
      bucket.push(row);
      this.#rows.set(key, row);
    }
    this.#buckets[index] = bucket;
    return bucket;
  }

  #loadPage(page: number): void {
    if (this.#pages.has(page)) return;
    this.#shrink();
    const text = this.#source.readPage(page);
    if (text === undefined) throw new Error(`Page ${page} of the rows is missing.`);
    const buckets = splitPage(text);
    for (let at = 0; at < buckets.length; at += 1) {
      this.#buckets[page * PAGE_BUCKETS + at] = buckets[at];
    }
    this.#pages.add(page);
  }
}
