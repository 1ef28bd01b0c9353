import { StoreError } from 'onceward';
import type { Block } from './blocks/block.ts';
import type { BlockBook } from './blocks/block-book.ts';
import { findBlockFault } from './blocks/block-fault.ts';
import type { Checkpointer } from './checkpointer.ts';
import type { StoredTransaction } from './history.ts';
import { combineRoots } from './pipeline/machine.ts';
import { type AssetSum, sumBalances } from './state/account-sums.ts';
import { AccountTable } from './state/account-table.ts';
import type { LedgerHome } from './state/ledger-home.ts';
import { toHex } from './state/merkle-list.ts';
import { RowTable } from './state/row-table.ts';

export interface ChainReport {
  readonly ok: boolean;
  /** The first block that is kept; 1 unless older ones were trimmed. */
  readonly first: number;
  readonly last: number;
  readonly transactions: number;
  /** What is wrong with the first block that is wrong. */
  readonly problem: string | null;
}

export interface StateReport {
  readonly ok: boolean;
  /** The block whose state root was recomputed from every stored row and account. */
  readonly height: number;
  /** By asset, in alphabetical order. Sums are zero in a ledger that is sound. */
  readonly assets: readonly AssetSum[];
  readonly problem: string | null;
}

export interface IntegrityReport {
  readonly ok: boolean;
  readonly chain: ChainReport;
  readonly state: StateReport;
}

export interface RecoveredTransaction {
  readonly idempotencyKey: string;
  readonly transactionId: string;
  readonly status: 'committed' | 'rejected';
  readonly createdAt: number;
}

export type Progress = (done: number, total: number) => void;

/** Long work lets others run this often, and, while there is something to write, for this long. */
const SLICE_MS = 3;
const PAUSE_MS = 6;
/** Blocks between two reports of progress. */
const TOLD_EVERY = 100;
/** Batches that were answered last: their answers may have been lost on the way out of the process. */
export const RECOVERY_BATCHES = 8;

export interface AuditParts {
  readonly book: BlockBook;
  readonly home: LedgerHome;
  readonly checkpointer: Checkpointer;
  readonly pipeline: { readonly inFlight: number };
  readonly opening: { readonly barrier: number; readonly answered: number };
}

export class Audit {
  readonly #book: BlockBook;
  readonly #home: LedgerHome;
  readonly #checkpointer: Checkpointer;
  readonly #barrier: number;
  readonly #answered: number;
  readonly #isBusy: () => boolean;

  constructor({ book, home, checkpointer, pipeline, opening }: AuditParts) {
    this.#book = book;
    this.#home = home;
    this.#checkpointer = checkpointer;
    this.#barrier = opening.barrier;
    this.#answered = opening.answered;
    this.#isBusy = () => pipeline.inFlight > 0;
  }

  /**
   * The transactions of one credential that were committed and, as far as the log shows, not answered before
   * this opening, and those that were answered last. A caller that got no answer before the restart finds its key
   * here, or may send again.
   */
  recovery(credential: string): RecoveredTransaction[] {
    const records: RecoveredTransaction[] = [];
    let batches = 0;
    for (let height = this.#barrier - 1; height >= this.#book.first; height -= 1) {
      const block = this.#book.block(height);
      if (block === undefined) throw lostBlock(height);
      if (height <= this.#answered && batches >= RECOVERY_BATCHES) break;
      if (block.texts.length === 0) continue;
      if (height <= this.#answered) batches += 1;
      for (const text of block.texts) {
        const { id, kind, key, status, credential: owner } = JSON.parse(text) as StoredTransaction;
        if (kind !== 'journal' || owner !== credential) continue;
        const createdAt = block.header.at;
        records.push({ idempotencyKey: key as string, transactionId: id, status, createdAt });
      }
    }
    return records;
  }

  /** Walks the chain from the first block that is kept to the tip as of now. */
  verify(progress: Progress = () => {}): Promise<ChainReport> {
    return this.#inSlices(this.#checkChain(progress));
  }

  *#checkChain(progress: Progress): Generator<void, ChainReport> {
    const { first, tipHeight: last } = this.#book;
    let before: Block | undefined;
    let transactions = 0;
    for (let height = first; height <= last; height += 1) {
      if (height < this.#book.first) {
        // Dropped while others ran.
        height = this.#book.first;
        before = undefined;
      }
      const block = this.#read(height);
      const problem = typeof block === 'string' ? block : findBlockFault(height, block, before);
      if (problem !== null || typeof block !== 'object') {
        return { ok: false, first, last, transactions, problem: `block ${height} ${problem}` };
      }
      transactions += block.texts.length;
      before = block;
      if (height % TOLD_EVERY === 0) progress(height - first + 1, last - first + 1);
      yield;
    }
    progress(last - first + 1, last - first + 1);
    return { ok: true, first, last, transactions, problem: null };
  }

  #read(height: number): Block | string | undefined {
    try {
      return this.#book.block(height);
    } catch (error) {
      return `cannot be read: ${(error as Error).message}`;
    }
  }

  /** The chain, the state root from every stored byte, and the sums of all balances. */
  async integrity(progress: Progress = () => {}): Promise<IntegrityReport> {
    const chain = await this.verify(progress);
    await this.#checkpointer.run();
    const state = await this.#checkpointer.exclusively(() => this.#inSlices(this.#checkState()));
    return { ok: chain.ok && state.ok, chain, state };
  }

  async #inSlices<T>(work: Generator<void, T>): Promise<T> {
    let sliceEnd = performance.now() + SLICE_MS;
    for (let step = work.next(); ; step = work.next()) {
      if (step.done === true) return step.value;
      if (performance.now() < sliceEnd) continue;
      const isBusy = this.#isBusy();
      await new Promise((resolve) => {
        if (isBusy) setTimeout(resolve, PAUSE_MS);
        else setImmediate(resolve);
      });
      sliceEnd = performance.now() + SLICE_MS;
    }
  }

  *#checkState(): Generator<void, StateReport> {
    const meta = this.#home.meta();
    if (meta === undefined)
      return { ok: false, height: 0, assets: [], problem: 'nothing is saved' };
    const { accountCount } = meta;
    const { height } = meta.header;
    const accounts = new AccountTable();
    const top = toHex(yield* accounts.restoring(this.#home.accountPages(), accountCount));
    const rows = RowTable.load(NO_SOURCE, this.#home.rowPages());
    const assets = yield* sumBalances(accounts);
    const isSameRoot =
      combineRoots(accountCount, top, rows.root) === this.#book.block(height)?.header.state;
    const unbalanced = assets.find(({ sum }) => sum !== 0n);
    if (!isSameRoot) {
      const problem = `what is stored does not have the state root of block ${height}`;
      return { ok: false, height, assets, problem };
    }
    if (unbalanced !== undefined) {
      const problem = `the balances of ${unbalanced.asset} add up to ${unbalanced.sum}, not to 0`;
      return { ok: false, height, assets, problem };
    }
    return { ok: true, height, assets, problem: null };
  }
}

/** An answer without it would say of a transaction that happened that it did not. */
function lostBlock(height: number): StoreError {
  return new StoreError(
    'ONCE_RECORD_UNREADABLE',
    `Block ${height} of the ledger's history is missing, so what it committed is unknown.`,
    { applied: 'no' },
  );
}

const NO_SOURCE = { readPage: () => undefined };
