import { StoreError } from 'onceward';
import type { Location } from '../state/key-table.ts';
import type { LedgerHome } from '../state/ledger-home.ts';
import {
  type Block,
  type BlockHeader,
  blockText,
  hashHeader,
  NO_BLOCK,
  parseBlock,
  readHeader,
  readTransaction,
} from './block.ts';

/** So many bytes of blocks wait in memory before they are saved, with or without a checkpoint of the state. */
const MOST_UNSAVED = 4 * 1_024 * 1_024;

/** Blocks that were added since the last checkpoint of the state, saved or not. */
export interface Growth {
  readonly count: number;
  readonly byteLength: number;
}

/** All blocks that are kept: the latest in memory until they are saved, the others in the home. */
export class BlockBook {
  readonly #home: LedgerHome;
  /** As bytes outside the heap: there may be tens of thousands of them. */
  readonly #recent = new Map<number, Buffer>();
  #unsavedBytes = 0;
  #growth: Growth = { count: 0, byteLength: 0 };
  readonly #watchers = new Set<() => void>();
  #tip: Block | undefined;
  #first: number;
  #tipHash: string;
  #tipHeight: number;
  readonly #lostBefore: number;

  /** Goes on behind the block of the saved state. Blocks that do not reach up to it without a gap are left out. */
  constructor(home: LedgerHome) {
    this.#home = home;
    const meta = home.meta();
    const header = meta?.header;
    this.#tipHash = header === undefined ? NO_BLOCK : hashHeader(header);
    this.#tipHeight = header?.height ?? 0;
    this.#first = firstWithoutGap(home, this.#tipHeight);
    // Trimming leaves the last block.
    const isLost = this.#tipHeight > 0 && this.#first > this.#tipHeight;
    this.#lostBefore = isLost ? this.#first : (meta?.lostBefore ?? 0);
  }

  /** The height of the first block that is kept. */
  get first(): number {
    return this.#first;
  }

  /** Blocks before this height were lost; `null` if none were, or they would have been trimmed by now. */
  get lostBefore(): number | null {
    return this.#lostBefore >= this.#first ? this.#lostBefore : null;
  }

  get tipHeight(): number {
    return this.#tipHeight;
  }

  get tipHash(): string {
    return this.#tipHash;
  }

  get tip(): Block | undefined {
    return this.#tip ?? this.block(this.#tipHeight);
  }

  add(block: Block): void {
    const bytes = ownBytes(blockText(block));
    this.#recent.set(block.header.height, bytes);
    this.#unsavedBytes += bytes.length;
    const { count, byteLength } = this.#growth;
    this.#growth = { count: count + 1, byteLength: byteLength + bytes.length };
    this.#tip = block;
    this.#tipHash = block.hash;
    this.#tipHeight = block.header.height;
    if (this.#watchers.size === 0) return;
    for (const wake of [...this.#watchers]) wake();
  }

  block(height: number): Block | undefined {
    if (height === this.#tip?.header.height) return this.#tip;
    if (!this.#isKept(height)) return undefined;
    return parseBlock(this.#bytesOf(height).toString());
  }

  /** With the length of the block's text, all of which is read. */
  header(height: number): { readonly header: BlockHeader; readonly length: number } | undefined {
    if (!this.#isKept(height)) return undefined;
    const bytes = this.#bytesOf(height);
    return { header: readHeader(bytes), length: bytes.length };
  }

  /** How long a block's text is, and when the block was made; `null` if it was damaged or lost. */
  sizeAndTime(height: number): { readonly length: number; readonly at: number } | null {
    try {
      const bytes = this.#bytesOf(height);
      return { length: bytes.length, at: readHeader(bytes).at };
    } catch {
      return null;
    }
  }

  /** One transaction of a block. The others, of which there may be thousands, are stepped over. */
  transactionAt({ height, position }: Location) {
    if (!this.#isKept(height)) return undefined;
    const bytes = this.#bytesOf(height);
    const text = readTransaction(bytes, position);
    return text === undefined ? undefined : { text, at: readHeader(bytes).at };
  }

  /** Resolves when a block higher than this is there, or the signal says stop. */
  async waitBeyond(height: number, signal: AbortSignal): Promise<void> {
    if (this.#tipHeight > height || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#watchers.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      this.#watchers.add(done);
      signal.addEventListener('abort', done);
    });
  }

  /** The blocks that are not yet saved, as the bytes of their texts. */
  unsaved(): Map<number, Buffer> {
    return new Map(this.#recent);
  }

  /** Whether so many are not yet saved that they should be. */
  get isFull(): boolean {
    return this.#unsavedBytes >= MOST_UNSAVED;
  }

  /** Saves the blocks alone: no more of them stay in memory, however long the next checkpoint takes to come. */
  async flush(): Promise<void> {
    const blocks = this.unsaved();
    await this.#home.saveBlocks(blocks);
    this.#forget(blocks);
  }

  /** What the next checkpoint adds to the history. */
  get growth(): Growth {
    return this.#growth;
  }

  /** A checkpoint has saved these blocks, and dropped those below `first`. */
  checkpointed(blocks: ReadonlyMap<number, Buffer>, growth: Growth, first: number): void {
    this.#forget(blocks);
    this.#first = first;
    const { count, byteLength } = this.#growth;
    this.#growth = { count: count - growth.count, byteLength: byteLength - growth.byteLength };
  }

  #forget(saved: ReadonlyMap<number, Buffer>): void {
    for (const [height, bytes] of saved) {
      if (this.#recent.delete(height)) this.#unsavedBytes -= bytes.length;
    }
  }

  /** Throws if there was such a block and it was lost. */
  #isKept(height: number): boolean {
    if (height >= this.#first || this.lostBefore === null || !(height >= 1)) {
      return height >= this.#first && height <= this.#tipHeight;
    }
    throw new StoreError(
      'ONCE_RECORD_UNREADABLE',
      `The ledger's history has lost block ${height}. It is complete from block ${this.#first} on.`,
    );
  }

  /** Of a height that is kept. To say that there is no such block would be wrong, if it was lost. */
  #bytesOf(height: number): Buffer {
    const bytes = this.#recent.get(height) ?? this.#home.block(height);
    if (bytes !== undefined) return bytes;
    const message = `Block ${height} of the ledger's history is missing.`;
    throw new StoreError('ONCE_RECORD_UNREADABLE', message);
  }
}

/** Not from the pool that Node cuts small buffers out of: one that lives long would keep its short-lived neighbours. */
function ownBytes(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}

/** The first of the blocks that reach up to a height without a gap; the height after it if none do. */
export function firstWithoutGap(home: LedgerHome, height: number): number {
  const [first, last] = [home.firstBlock(), home.lastBlock()];
  if (first === undefined || last === undefined) return height + 1;
  if (first <= height && last >= height && home.blockCount() === last - first + 1) return first;
  return height + 1;
}
