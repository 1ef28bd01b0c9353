import type { KeyRun } from './key-window.ts';
import type {
  AccountPage,
  Checkpoint,
  CheckpointMeta,
  LedgerHome,
  WindowName,
} from './ledger-home.ts';

interface Saved {
  readonly meta: CheckpointMeta;
  readonly accounts: ReadonlyMap<number, Uint8Array>;
  readonly balances: ReadonlyMap<number, Uint8Array>;
  readonly rows: ReadonlyMap<number, string>;
  readonly runs: Readonly<Record<WindowName, readonly KeyRun[]>>;
}

/** A home that forgets everything with the process, unless it is passed on to the next opening. For tests. */
export class MemoryHome implements LedgerHome {
  #saved: Saved | undefined;
  #copy: Saved | undefined;
  #blocks = new Map<number, Buffer>();
  readonly #damaged = new Set<number>();

  damage(): string | null {
    return null;
  }

  meta(): CheckpointMeta | undefined {
    return this.#saved?.meta;
  }

  accountPages(): Iterable<AccountPage> {
    const saved = this.#saved;
    const pages = [...(saved?.accounts ?? [])].sort(([a], [b]) => a - b);
    return pages.map(([page, records]) => ({ records, balances: saved?.balances.get(page) }));
  }

  rowPages(): Iterable<string> {
    return inOrder(this.#saved?.rows);
  }

  rowPage(page: number): string | undefined {
    return this.#saved?.rows.get(page);
  }

  keyRuns(window: WindowName): Iterable<KeyRun> {
    return this.#saved?.runs[window] ?? [];
  }

  block(height: number): Buffer | undefined {
    if (this.#damaged.has(height)) throw new Error(`Block ${height} is damaged.`);
    return this.#blocks.get(height);
  }

  firstBlock(): number | undefined {
    const heights = [...this.#blocks.keys()];
    return heights.length === 0 ? undefined : Math.min(...heights);
  }

  lastBlock(): number | undefined {
    const heights = [...this.#blocks.keys()];
    return heights.length === 0 ? undefined : Math.max(...heights);
  }

  blockCount(): number {
    return this.#blocks.size;
  }

  async saveBlocks(blocks: ReadonlyMap<number, Buffer>): Promise<void> {
    for (const [height, bytes] of blocks) {
      this.#blocks.set(height, bytes);
      this.#damaged.delete(height);
    }
  }

  async save(checkpoint: Checkpoint): Promise<void> {
    await this.saveBlocks(checkpoint.blocks);
    for (const height of this.#blocks.keys()) {
      if (height < checkpoint.firstBlock) this.#blocks.delete(height);
    }
    const runs = (window: WindowName) => {
      const { runs: added, since } = checkpoint.windows[window];
      const all = [...(this.#saved?.runs[window] ?? []), ...added];
      return all.filter(({ until }) => until >= since);
    };
    this.#saved = {
      meta: checkpoint.meta,
      accounts: new Map([...(this.#saved?.accounts ?? []), ...copies(checkpoint.accountPages)]),
      balances: new Map([...(this.#saved?.balances ?? []), ...copies(checkpoint.balancePages)]),
      rows: new Map([...(this.#saved?.rows ?? []), ...checkpoint.rowPages]),
      runs: { keys: runs('keys'), receipts: runs('receipts') },
    };
  }

  async snapshot(): Promise<number> {
    this.#copy = this.#saved;
    return this.snapshotHeight();
  }

  snapshotHeight(): number {
    return this.#copy?.meta.header.height ?? 0;
  }

  async restoreSnapshot(): Promise<void> {
    this.#saved = this.#copy;
  }

  async dropState(): Promise<void> {
    this.#saved = undefined;
  }

  /** What an accident leaves of a home. */
  lose(what: 'state' | 'snapshot' | 'history'): void {
    if (what === 'state') this.#saved = undefined;
    if (what === 'snapshot') this.#copy = undefined;
    if (what === 'history') this.#blocks = new Map();
  }

  /** Garbles one byte of what is saved of the state; the copy stays as it was. */
  damageState(roll: number): void {
    const saved = this.#saved;
    if (saved === undefined) return;
    const pages = [saved.accounts, saved.balances].filter(({ size }) => size > 0);
    const isRow = roll % (pages.length + 1) === pages.length;
    if (isRow) {
      const [page, text] = nth([...saved.rows], roll);
      const at = roll % text.length;
      const garbled = `${text.slice(0, at)}${text[at] === '#' ? '!' : '#'}${text.slice(at + 1)}`;
      this.#saved = { ...saved, rows: new Map([...saved.rows, [page, garbled]]) };
      return;
    }
    const changed = nth(pages, roll);
    const [page, bytes] = nth([...changed], roll);
    const garbled = Buffer.from(bytes);
    garbled[roll % garbled.length] = (garbled[roll % garbled.length] as number) ^ 1;
    const replaced = new Map([...changed, [page, garbled]]);
    this.#saved = { ...saved, [changed === saved.accounts ? 'accounts' : 'balances']: replaced };
  }

  /** Garbles the height under which a block is kept, so that it is not found any more and no gap is seen. */
  misplaceBlock(height: number): void {
    const bytes = this.#blocks.get(height);
    if (bytes === undefined || !this.#blocks.delete(height)) return;
    this.#blocks.set(height + 0.5, bytes);
  }

  /** Garbles a block. */
  damageBlock(roll: number): void {
    const heights = [...this.#blocks.keys()];
    if (heights.length > 0) this.#damaged.add(nth(heights, roll));
  }

  async close(): Promise<void> {}
}

function nth<T>(list: readonly T[], roll: number): T {
  return list[roll % list.length] as T;
}

function copies(pages: ReadonlyMap<number, Uint8Array>): Map<number, Uint8Array> {
  return new Map([...pages].map(([page, bytes]) => [page, Buffer.from(bytes)]));
}

function inOrder<T>(pages: ReadonlyMap<number, T> = new Map()): T[] {
  return [...pages].sort(([a], [b]) => a - b).map(([, page]) => page);
}
