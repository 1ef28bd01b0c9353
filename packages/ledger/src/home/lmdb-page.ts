/** A page of an LMDB file says what cannot be. */
export class LmdbDamage extends Error {
  override readonly name = 'LmdbDamage';

  constructor(page: number, what: string) {
    super(`page ${page} of the database ${what}`);
  }
}

const HEAD_BYTES = 24;
const BRANCH = 0x01;
const LEAF = 0x02;
const OVERFLOW = 0x04;
/** The flags that say what a page is. */
const KINDS = 0x7f;
const NODE_BYTES = 8;
const OVERFLOW_BYTES = 24;
const BIG_DATA = 0x01;
const SUB_TREE = 0x02;

/** A value in its leaf, or the pages where it is. */
export type LmdbNode = { readonly key: Buffer } & (
  | { readonly inline: Buffer; readonly overflow?: undefined }
  | {
      readonly inline?: undefined;
      readonly overflow: { readonly page: number; readonly pages: number; readonly length: number };
    }
);

/** A branch or leaf of a tree: pointers to nodes from its beginning, the nodes from its end. */
export class LmdbPage {
  readonly isLeaf: boolean;
  readonly count: number;
  readonly #number: number;
  readonly #bytes: Buffer;

  constructor(number: number, bytes: Buffer) {
    this.#number = number;
    this.#bytes = bytes;
    const kind = bytes.readUInt16LE(18) & KINDS;
    if (readCount(bytes, 0) !== number) throw new LmdbDamage(number, 'has another number');
    if (kind !== BRANCH && kind !== LEAF) throw new LmdbDamage(number, 'is no page of a tree');
    const [lower, upper] = [bytes.readUInt16LE(20), bytes.readUInt16LE(22)];
    if (lower > upper || upper > bytes.length - HEAD_BYTES || lower % 2 !== 0) {
      throw new LmdbDamage(number, 'has bounds that cannot be');
    }
    this.isLeaf = kind === LEAF;
    this.count = lower / 2;
    if (this.count < (this.isLeaf ? 1 : 2)) throw new LmdbDamage(number, 'has too few entries');
  }

  childAt(index: number): number {
    const at = this.#place(index, 0);
    return this.#bytes.readUIntLE(at, 6);
  }

  nodeAt(index: number): LmdbNode {
    const bytes = this.#bytes;
    const at = this.#place(index, 0);
    const length = bytes.readUInt32LE(at);
    const flags = bytes.readUInt16LE(at + 4);
    if (flags !== 0 && flags !== BIG_DATA && flags !== SUB_TREE) {
      throw new LmdbDamage(this.#number, 'has an entry of an unknown kind');
    }
    const keyEnd = at + NODE_BYTES + bytes.readUInt16LE(at + 6);
    const isBig = flags === BIG_DATA;
    this.#place(index, isBig ? OVERFLOW_BYTES : length);
    const key = bytes.subarray(at + NODE_BYTES, keyEnd);
    if (!isBig) return { key, inline: bytes.subarray(keyEnd, keyEnd + length) };
    const overflow = {
      page: readCount(bytes, keyEnd),
      pages: readCount(bytes, keyEnd + 16),
      length,
    };
    return { key, overflow };
  }

  /** Where a node begins, of which the key and so many bytes behind it must be in the page. */
  #place(index: number, dataBytes: number): number {
    const bytes = this.#bytes;
    const at = HEAD_BYTES + bytes.readUInt16LE(HEAD_BYTES + 2 * index);
    const upper = HEAD_BYTES + bytes.readUInt16LE(22);
    const isInside = at >= upper && at + NODE_BYTES <= bytes.length;
    const end = isInside ? at + NODE_BYTES + bytes.readUInt16LE(at + 6) + dataBytes : Infinity;
    if (end > bytes.length) throw new LmdbDamage(this.#number, 'has an entry outside of itself');
    return at;
  }

  static checkOverflow(number: number, pages: number, bytes: Buffer): void {
    const isOne = (bytes.readUInt16LE(18) & KINDS) === OVERFLOW;
    if (!isOne || readCount(bytes, 0) !== number || bytes.readUInt32LE(20) !== pages) {
      throw new LmdbDamage(number, 'does not begin the value that it should');
    }
  }
}

function readCount(bytes: Buffer, at: number): number {
  return Number(bytes.readBigUInt64LE(at));
}
