import { RECOVERY_BATCHES } from './audit.ts';
import type { BlockBook } from './blocks/block-book.ts';
import type { LedgerCounters } from './counters.ts';
import type { LedgerLog } from './log/ledger-log.ts';
import type { Machine } from './pipeline/machine.ts';
import type { LedgerSettings } from './settings.ts';
import type { Checkpoint, LedgerHome } from './state/ledger-home.ts';

export interface CheckpointerParts {
  readonly machine: Machine;
  readonly book: BlockBook;
  readonly home: LedgerHome;
  readonly log: LedgerLog;
  readonly settings: LedgerSettings;
  readonly counters: LedgerCounters;
}

/** At most so many old blocks go for each new one that is saved: faster than they come, whatever their size. */
const DROPPED_FOR_EACH = 2;
const DROPPED_AT_LEAST = 1_000;
/** The search for them yields to the event loop this often. */
const LOOKED_AT_ONCE = 200;

/**
 * Saves the applied state from time to time, so that a restart replays only what came after, and sets a copy
 * aside less often, so that the log before it can be removed. Writing goes on meanwhile: what is saved is the state of
 * one moment.
 */
export class Checkpointer {
  readonly #parts: CheckpointerParts;
  #bytes = 0;
  #bytesSinceSnapshot: number;
  #running: Promise<void> = Promise.resolve();
  #isRunning = false;

  constructor(parts: CheckpointerParts) {
    this.#parts = parts;
    this.#bytesSinceSnapshot = parts.log.byteLength;
  }

  /** Takes note of an entry that was applied, and saves what is due by now. */
  async noteApplied(byteLength: number): Promise<void> {
    this.#bytes += byteLength;
    this.#bytesSinceSnapshot += byteLength;
    if (this.#isRunning) return;
    if (this.#bytes >= this.#parts.settings.checkpointBytes) await this.run();
    else if (this.#parts.book.isFull) await this.exclusively(() => this.#flush());
  }

  /** Saves everything applied by now. One at a time; a call during another waits and then makes its own. */
  run(): Promise<void> {
    return this.exclusively(() => this.#checkpoint());
  }

  /** Runs something while no checkpoint does: what the home holds stays as it is. */
  exclusively<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#running.then(work);
    this.#running = result.then(
      () => {},
      () => {},
    );
    return result;
  }

  /** While the state is written, so many blocks may come that these are saved once more behind it. */
  async #flush(): Promise<void> {
    this.#isRunning = true;
    try {
      while (this.#parts.book.isFull) await this.#parts.book.flush();
    } finally {
      this.#isRunning = false;
    }
  }

  async #checkpoint(): Promise<void> {
    const { home, book, machine, settings, counters, log } = this.#parts;
    if (home.meta()?.header.height === machine.height) return;
    this.#isRunning = true;
    try {
      const trimmed = await this.#trim();
      const { growth } = book;
      const checkpoint = this.#take(trimmed);
      this.#bytes = 0;
      await home.save(checkpoint);
      book.checkpointed(checkpoint.blocks, growth, checkpoint.firstBlock);
      machine.rows.saved();
      counters.checkpoints += 1;
      if (this.#bytesSinceSnapshot >= settings.snapshotBytes) await this.#snapshot();
      await log.trim(home.snapshotHeight());
    } finally {
      this.#isRunning = false;
    }
  }

  async #snapshot(): Promise<void> {
    this.#bytesSinceSnapshot = 0;
    await this.#parts.home.snapshot();
    this.#parts.counters.snapshots += 1;
  }

  /** Runs in one go, between two entries. */
  #take(trimmed: Trimmed): Checkpoint {
    const { machine, book, home } = this.#parts;
    const { accounts, rows, window, receipts, settings } = machine;
    const tip = book.tip;
    if (tip === undefined) throw new Error('There is nothing to save before the first block.');
    const historyBytes = (home.meta()?.historyBytes ?? 0) + book.growth.byteLength;
    return {
      meta: {
        version: 2,
        header: tip.header,
        accountCount: accounts.count,
        rowCount: rows.rowCount,
        settings,
        historyBytes: historyBytes - trimmed.bytes,
      },
      ...accounts.takeChanges(),
      rowPages: rows.takeDirtyPages(),
      windows: {
        keys: { runs: window.takeFresh(), since: window.oldest },
        receipts: { runs: receipts.takeFresh(), since: receipts.oldest },
      },
      blocks: book.unsaved(),
      firstBlock: trimmed.first,
    };
  }

  /**
   * The oldest block to keep. Blocks over the limit go, but for those in which a key of the window was used, and
   * those whose callers may ask after a crash what became of their requests.
   */
  async #trim(): Promise<Trimmed> {
    const { machine, book, home, settings } = this.#parts;
    const windowBegins = machine.time - machine.settings.idempotency_ttl_ms;
    const { count, byteLength } = book.growth;
    const over = (home.meta()?.historyBytes ?? 0) + byteLength - settings.historyBytes;
    const end = Math.min(
      machine.height,
      machine.answered - RECOVERY_BATCHES,
      book.first + Math.max(DROPPED_AT_LEAST, DROPPED_FOR_EACH * count),
    );
    let first = book.first;
    let bytes = 0;
    while (first < end && bytes < over) {
      const block = book.sizeAndTime(first);
      // One that is damaged or lost goes with its neighbours.
      if (block !== null && block.at > windowBegins) break;
      bytes += block?.length ?? 0;
      first += 1;
      if (first % LOOKED_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return { first, bytes };
  }
}

/** What a checkpoint drops: the blocks before `first`, and how long they were together. */
interface Trimmed {
  readonly first: number;
  readonly bytes: number;
}
