import { hash } from 'node:crypto';

/** How many children a node has. Wide, because a call to the hash function costs more than the bytes it hashes. */
export const ARITY = 16;

const DIGEST_BYTES = 32;
/** The children's digests behind the letter that marks a node: no leaf and no other kind of text begins with it. */
const NODE_MARK = 'N'.charCodeAt(0);
const NODE_BYTES = 1 + ARITY * DIGEST_BYTES;
const FIRST_NODES = 4;

/**
 * SHA-256 of UTF-8 text, as 32 Latin-1 characters: the cheapest form in which Node gives it. The first letter
 * of the text says what is hashed, so that no two kinds are ever confused.
 */
export type Digest = string;

export function digest(text: string): Digest {
  return hash('sha256', text, 'binary');
}

export function toHex(value: Digest): string {
  return Buffer.from(value, 'latin1').toString('hex');
}

/** For each level from the leaves up, the other children of the node above the proven one, in order and in hex. */
export type MerklePath = readonly (readonly string[])[];

/**
 * A Merkle tree over a list that grows at its end. A node is SHA-256 of `N` and its children's digests; the top
 * of a list of one is the leaf itself. Changing k leaves costs at most k hashes a level, and fewer where they
 * share nodes.
 */
export class MerkleList {
  readonly #levels: Level[] = [new Level()];

  get length(): number {
    return this.#leaves.length;
  }

  get #leaves(): Level {
    return this.#levels[0] as Level;
  }

  /** Sets a leaf, or appends one if `index` is the length. */
  set(index: number, leaf: Digest): void {
    this.#leaves.set(index, leaf);
  }

  /** The digest at the top; of an empty list it is that of `N` alone. */
  top(): Digest {
    if (this.length === 0) return digest('N');
    let level = this.#leaves;
    for (let above = 1; level.length > 1; above += 1) {
      const parents = (this.#levels[above] ??= new Level());
      level.refresh(parents);
      level = parents;
    }
    return level.get(0);
  }

  path(index: number): MerklePath {
    this.top();
    const path: string[][] = [];
    let at = index;
    for (const level of this.#levels) {
      if (level.length <= 1) break;
      path.push(level.siblings(at));
      at = Math.floor(at / ARITY);
    }
    return path;
  }
}

/**
 * One row of the tree in one piece of memory, laid out so that the text of each node above lies ready to be
 * hashed.
 */
class Level {
  length = 0;
  #bytes = Buffer.alloc(FIRST_NODES * NODE_BYTES, NODE_MARK);
  #isStale = new Uint8Array(FIRST_NODES);
  #stale: number[] = [];

  set(index: number, value: Digest): void {
    const parent = Math.floor(index / ARITY);
    if (parent >= this.#isStale.length) this.#grow();
    if (index >= this.length) this.length = index + 1;
    this.#bytes.write(value, offsetOf(index), DIGEST_BYTES, 'latin1');
    if (this.#isStale[parent] === 1) return;
    this.#isStale[parent] = 1;
    this.#stale.push(parent);
  }

  get(index: number): Digest {
    const at = offsetOf(index);
    return this.#bytes.toString('latin1', at, at + DIGEST_BYTES);
  }

  /** Recomputes the nodes above those that have changed. */
  refresh(parents: Level): void {
    const end = offsetOf(this.length - 1) + DIGEST_BYTES;
    for (const parent of this.#stale) {
      const at = parent * NODE_BYTES;
      const length = Math.min(NODE_BYTES, end - at);
      const text = new Uint8Array(this.#bytes.buffer, this.#bytes.byteOffset + at, length);
      parents.set(parent, hash('sha256', text, 'binary'));
      this.#isStale[parent] = 0;
    }
    this.#stale.length = 0;
  }

  siblings(index: number): string[] {
    const first = index - (index % ARITY);
    const siblings: string[] = [];
    for (let at = first; at < Math.min(first + ARITY, this.length); at += 1) {
      if (at !== index) siblings.push(toHex(this.get(at)));
    }
    return siblings;
  }

  #grow(): void {
    const bytes = Buffer.alloc(this.#bytes.length * 2, NODE_MARK);
    this.#bytes.copy(bytes);
    this.#bytes = bytes;
    const isStale = new Uint8Array(this.#isStale.length * 2);
    isStale.set(this.#isStale);
    this.#isStale = isStale;
  }
}

function offsetOf(index: number): number {
  return Math.floor(index / ARITY) * NODE_BYTES + 1 + (index % ARITY) * DIGEST_BYTES;
}

/** A tree over a list that will not change. */
export function merkleListOf(leaves: readonly Digest[]): MerkleList {
  const list = new MerkleList();
  for (let index = 0; index < leaves.length; index += 1) list.set(index, leaves[index] as Digest);
  return list;
}
