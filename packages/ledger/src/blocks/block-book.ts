import type { Location } from '../state/key-table.ts';
import type { LedgerHome } from '../state/ledger-home.ts';
import {
  type Block,
  blockText,
  hashHeader,
  NO_BLOCK,
  parseBlock,
  readTime,
  readTransaction,
} from './block.ts';

/** All blocks that are kept: the latest in memory until a checkpoint has saved them, the others in the home. */
export class BlockBook {
  readonly #home: LedgerHome;
  /** As bytes outside the heap: there may be tens of thousands of transactions between two checkpoints. */
  readonly #recent = new Map<number, Buffer>();
  readonly #watchers = new Set<() => void>();
  #tip: Block | undefined;
  #first: number;
  #tipHash: string;
  #tipHeight: number;

  /** Goes on behind the block of the saved state. Blocks that do not reach up to it without a gap are left out. */
  constructor(home: LedgerHome) {
    this.#home = home;
    const header = home.meta()?.header;
    this.#tipHash = header === undefined ? NO_BLOCK : hashHeader(header);
    this.#tipHeight = header?.height ?? 0;
    this.#first = firstWithoutGap(home, this.#tipHeight);
  }

  /** The height of the first block that is kept. */
  get first(): number {
    return this.#first;
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
    this.#recent.set(block.header.height, Buffer.from(blockText(block)));
    this.#tip = block;
    this.#tipHash = block.hash;
    this.#tipHeight = block.header.height;
    if (this.#watchers.size === 0) return;
    for (const wake of [...this.#watchers]) wake();
  }

  block(height: number): Block | undefined {
    if (height === this.#tip?.header.height) return this.#tip;
    if (height < this.#first || height > this.#tipHeight) return undefined;
    const bytes = this.#bytesOf(height);
    return bytes === undefined ? undefined : parseBlock(bytes.toString());
  }

  /** How long a block's text is, and when the block was made. */
  sizeAndTime(height: number): { readonly length: number; readonly at: number } | undefined {
    const bytes = height < this.#first ? undefined : this.#bytesOf(height);
    return bytes && { length: bytes.length, at: readTime(bytes) };
  }

  /** One transaction of a block. The others, of which there may be thousands, are stepped over. */
  transactionAt({ height, position }: Location) {
    if (height < this.#first || height > this.#tipHeight) return undefined;
    const bytes = this.#bytesOf(height);
    const text = bytes && readTransaction(bytes, position);
    return text === undefined ? undefined : { text, at: readTime(bytes as Buffer) };
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

  /** The home has the blocks up to a height, and none below `first` any more. */
  saved(through: number, first: number): void {
    for (const height of this.#recent.keys()) {
      if (height > through) break;
      this.#recent.delete(height);
    }
    this.#first = first;
  }

  #bytesOf(height: number): Buffer | undefined {
    return this.#recent.get(height) ?? this.#home.block(height);
  }
}

/** The first of the blocks that reach up to a height without a gap; the height after it if none do. */
export function firstWithoutGap(home: LedgerHome, height: number): number {
  const [first, last] = [home.firstBlock(), home.lastBlock()];
  if (first === undefined || last === undefined) return height + 1;
  if (first <= height && last >= height && home.blockCount() === last - first + 1) return first;
  return height + 1;
}
