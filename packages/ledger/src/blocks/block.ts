import { type Digest, digest, type MerkleList, merkleListOf, toHex } from '../state/merkle-list.ts';

/** What a block says of itself. Its hash is SHA-256 of `H` and this, as JSON with the members in this order. */
export interface BlockHeader {
  readonly height: number;
  /** The hash of the block before; 64 zeros before the first. */
  readonly previous: string;
  /** SHA-256 of `X`, the count, a colon, and the top of the transactions' Merkle tree. */
  readonly transactions: string;
  readonly count: number;
  /** The state root after this block. */
  readonly state: string;
  /** Log time, in milliseconds since the epoch. Never falls from one block to the next. */
  readonly at: number;
  readonly term: number;
}

export interface Block {
  readonly header: BlockHeader;
  readonly hash: string;
  /** The transactions as JSON texts; a leaf of the tree is SHA-256 of `T` and the text. */
  readonly texts: readonly string[];
}

export interface TransactionProof {
  readonly position: number;
  readonly count: number;
  readonly path: readonly (readonly string[])[];
}

export const NO_BLOCK = '0'.repeat(64);

export function headerText(header: BlockHeader): string {
  const { height, previous, transactions, count, state, at, term } = header;
  return JSON.stringify({ height, previous, transactions, count, state, at, term });
}

export function hashHeader(header: BlockHeader): string {
  return toHex(digest(`H${headerText(header)}`));
}

function treeOf(texts: readonly string[]): MerkleList {
  const leaves: Digest[] = texts.map((text) => digest(`T${text}`));
  return merkleListOf(leaves);
}

export function transactionsRoot(texts: readonly string[]): string {
  return toHex(digest(`X${texts.length}:${toHex(treeOf(texts).top())}`));
}

export function proveTransaction(block: Block, position: number): TransactionProof {
  const path = treeOf(block.texts).path(position);
  return { position, count: block.texts.length, path };
}

/** A block as it is stored: the header, then one transaction a line. */
export function blockText({ header, texts }: Block): string {
  return texts.length === 0 ? headerText(header) : `${headerText(header)}\n${texts.join('\n')}`;
}

export function parseBlock(text: string): Block {
  const [head, ...texts] = text.split('\n') as [string, ...string[]];
  const header = JSON.parse(head) as BlockHeader;
  return { header, hash: hashHeader(header), texts };
}

const LINE_FEED = 10;

/** The header alone, from the stored bytes of a block. */
export function readHeader(bytes: Buffer): BlockHeader {
  const end = bytes.indexOf(LINE_FEED);
  return JSON.parse(bytes.toString('utf8', 0, end < 0 ? bytes.length : end)) as BlockHeader;
}

/** The text of one transaction, from the stored bytes of its block. */
export function readTransaction(bytes: Buffer, position: number): string | undefined {
  let start = bytes.indexOf(LINE_FEED) + 1;
  for (let at = 0; at < position && start > 0; at += 1) {
    start = bytes.indexOf(LINE_FEED, start) + 1;
  }
  if (start === 0) return undefined;
  const end = bytes.indexOf(LINE_FEED, start);
  return bytes.toString('utf8', start, end < 0 ? bytes.length : end);
}
