import type { PastBlocks } from '../pipeline/machine.ts';
import type { Location } from '../state/key-table.ts';
import type { LedgerHome } from '../state/ledger-home.ts';
import { type Block, type BlockHeader, blockText, NO_BLOCK, parseBlock } from './block.ts';

/** All blocks that are kept: the latest in memory until a checkpoint has saved them, the others in the home. */
export class BlockBook implements PastBlocks {
  readonly #home: LedgerHome;
  /** As bytes outside the heap: there may be tens of thousands of transactions between two checkpoints. */
  readonly #recent = new Map<number, { readonly header: BlockHeader; readonly bytes: Buffer }>();
  readonly #watchers = new Set<() => void>();
  #tip: Block | undefined;
  #first: number;
  #tipHash: string;
  #tipHeight: number;

  constructor(home: LedgerHome) {
    this.#home = home;
    const meta = home.meta();
    this.#first = home.firstBlock() ?? 1;
    this.#tipHash = meta?.tip ?? NO_BLOCK;
    this.#tipHeight = meta?.height ?? 0;
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
    const { header } = block;
    this.#recent.set(header.height, { header, bytes: Buffer.from(blockText(block)) });
    this.#tip = block;
    this.#tipHash = block.hash;
    this.#tipHeight = block.header.height;
    if (this.#watchers.size === 0) return;
    for (const wake of [...this.#watchers]) wake();
  }

  block(height: number): Block | undefined {
    if (height === this.#tip?.header.height) return this.#tip;
    if (height < this.#first || height > this.#tipHeight) return undefined;
    const text = this.#recent.get(height)?.bytes.toString() ?? this.#home.block(height);
    return text === undefined ? undefined : parseBlock(text);
  }

  /** How long a block's text is. */
  lengthOf(height: number): number {
    return this.#recent.get(height)?.bytes.length ?? this.#home.blockLength(height);
  }

  timeOf(height: number): number | undefined {
    return this.#header(height)?.at;
  }

  transactionText({ height, position }: Location): string | undefined {
    return this.block(height)?.texts[position];
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
    const blocks = new Map<number, Buffer>();
    for (const [height, { bytes }] of this.#recent) blocks.set(height, bytes);
    return blocks;
  }

  /** The home has the blocks up to a height, and none below `first` any more. */
  saved(through: number, first: number): void {
    for (const height of this.#recent.keys()) {
      if (height > through) break;
      this.#recent.delete(height);
    }
    this.#first = first;
  }

  #header(height: number): BlockHeader | undefined {
    const recent = this.#recent.get(height);
    if (recent !== undefined || height < this.#first) return recent?.header;
    const text = this.#home.block(height);
    if (text === undefined) return undefined;
    const end = text.indexOf('\n');
    return JSON.parse(end < 0 ? text : text.slice(0, end)) as BlockHeader;
  }
}
