import type { World } from 'onceward';
import { Audit, type ChainReport, type IntegrityReport, type Progress } from './audit.ts';
import type { Block, BlockHeader } from './blocks/block.ts';
import type { BlockBook } from './blocks/block-book.ts';
import type { Checkpointer } from './checkpointer.ts';
import type { LedgerCounters } from './counters.ts';
import { History } from './history.ts';
import type { LedgerLog } from './log/ledger-log.ts';
import type {
  BatchWriteInput,
  Caller,
  OrganizationInput,
  VaultInput,
  WriteInput,
} from './pipeline/admit.ts';
import type { Machine } from './pipeline/machine.ts';
import type { NearTier } from './pipeline/near-tier.ts';
import type { Pipeline } from './pipeline/pipeline.ts';
import { Reads } from './reads.ts';
import { type MachineSettings, settingsOf } from './settings.ts';
import type { LedgerHome } from './state/ledger-home.ts';
import { type CreateAccountResult, Transactions, type TransactResult } from './transactions.ts';
import {
  type ChangeResult,
  type CreateResult,
  type WriteOptions,
  type WriteResult,
  Writes,
} from './writes.ts';

const MIB = 1_024 * 1_024;
/** So many bytes of blocks are read for one answer with headers, and so many before others have their turn. */
const MOST_READ = 16 * MIB;
const READ_AT_ONCE = MIB;

/** How the ledger came up this time. */
export interface Opening {
  readonly term: number;
  /** The height of the block at opening. */
  readonly barrier: number;
  /** The height up to which every request is known to have been answered before. */
  readonly answered: number;
  readonly replayedEntries: number;
  /** Why the state was rebuilt from the snapshot, if it was. */
  readonly rebuiltBecause: string | null;
}

export interface LedgerParts {
  readonly world: World;
  readonly log: LedgerLog;
  readonly home: LedgerHome;
  readonly machine: Machine;
  readonly book: BlockBook;
  readonly pipeline: Pipeline;
  readonly checkpointer: Checkpointer;
  readonly counters: LedgerCounters;
  readonly near: NearTier;
  readonly opening: Opening;
}

/**
 * The ledger as doors see it. An expected no is a value with a code (`Refusal`); a rejection means that the ledger
 * has stopped, and that whether the request took effect is known only after it was opened again.
 *
 * Callers are already authenticated: `Caller` says who they are and whose keys they use. Nothing here checks secrets.
 */
export class Ledger {
  readonly opening: Opening;
  readonly counters: LedgerCounters;
  /** Accounts, entities, client states and their proofs, as of the last block. Synchronous. */
  readonly reads: Reads;
  /** Transactions, idempotency records and account entries, as far back as blocks are kept. Synchronous. */
  readonly history: History;
  readonly #parts: LedgerParts;
  readonly #transactions: Transactions;
  readonly #writes: Writes;
  readonly #audit: Audit;
  readonly #closed = new AbortController();
  #closing: Promise<void> | undefined;

  constructor(parts: LedgerParts) {
    const { machine, book, pipeline, near, counters, opening, world } = parts;
    this.#parts = parts;
    this.opening = opening;
    this.counters = counters;
    this.reads = new Reads(machine, book, world.now);
    this.history = new History(machine, book, world.now);
    this.#transactions = new Transactions(pipeline, machine, counters, world.now);
    this.#writes = new Writes(pipeline, machine, book, near, counters);
    this.#audit = new Audit(parts);
  }

  /**
   * Posts journal entries once per credential and key. A key in use is refused at once; nothing is ever replayed.
   * `firstSentAt`, if the caller says so: a key that may have been forgotten since is refused as `KEY_EXPIRED`.
   */
  transact(
    caller: Caller,
    key: string | undefined,
    body: unknown,
    firstSentAt?: number,
  ): Promise<TransactResult> {
    return this.#transactions.transact(caller, key, body, firstSentAt);
  }

  /** With a key, a retry of the same creation gets the same id; so for organizations and vaults. */
  createAccount(
    caller: Caller,
    body: unknown,
    key?: string,
    firstSentAt?: number,
  ): Promise<CreateAccountResult> {
    return this.#transactions.createAccount(caller, body, key, firstSentAt);
  }

  /** Runs operations once per client and sequence or key, all or none of them. */
  write(caller: Caller, input: WriteInput, options?: WriteOptions): Promise<WriteResult> {
    return this.#writes.write(caller, input, options);
  }

  batchWrite(caller: Caller, input: BatchWriteInput, options?: WriteOptions): Promise<WriteResult> {
    return this.#writes.batchWrite(caller, input, options);
  }

  createOrganization(caller: Caller, input: OrganizationInput): Promise<CreateResult> {
    return this.#writes.createOrganization(caller, input);
  }

  createVault(caller: Caller, input: VaultInput): Promise<CreateResult> {
    return this.#writes.createVault(caller, input);
  }

  /** What the state machine goes by. */
  get settings(): MachineSettings {
    return settingsOf(this.#parts.machine.settings);
  }

  /** Writes an entry that changes settings of the state machine, for every replica from that entry on. */
  changeSettings(caller: Caller, changes: Partial<MachineSettings>): Promise<ChangeResult> {
    return this.#writes.changeSettings(caller, changes);
  }

  getBlock(height: number): Block | undefined {
    return this.#parts.book.block(height);
  }

  /**
   * The headers of so many blocks from a height on; none if the first of them is not kept. Fewer at the tip, and where
   * blocks are large: a header is read with its block.
   */
  async getHeaders(from: number, count: number): Promise<BlockHeader[]> {
    const headers: BlockHeader[] = [];
    let [readBytes, atOnceBytes] = [0, 0];
    while (headers.length < count && readBytes < MOST_READ) {
      if (atOnceBytes >= READ_AT_ONCE) {
        await new Promise((resolve) => setImmediate(resolve));
        atOnceBytes = 0;
      }
      const found = this.#parts.book.header(from + headers.length);
      if (found === undefined) break;
      headers.push(found.header);
      readBytes += found.length;
      atOnceBytes += found.length;
    }
    return headers;
  }

  getTip(): Block {
    return this.#parts.book.tip as Block;
  }

  /** The height of the oldest block that is kept. */
  get firstBlock(): number {
    return this.#parts.book.first;
  }

  /** Every block from a height on, those to come included, until the signal says stop or the ledger closes. */
  async *watchBlocks(from: number, signal?: AbortSignal): AsyncIterable<Block> {
    const { book } = this.#parts;
    const ended = this.#closed.signal;
    const stop = signal === undefined ? ended : AbortSignal.any([signal, ended]);
    let height = Math.max(from, book.first);
    while (!stop.aborted) {
      const block = book.block(height);
      if (block === undefined && height <= book.tipHeight) {
        // Trimmed while the watcher was elsewhere.
        height = book.first;
        continue;
      }
      if (block === undefined) {
        await book.waitBeyond(height - 1, stop);
        continue;
      }
      height += 1;
      yield block;
    }
  }

  /** What the last batches before this opening committed for a credential. */
  recovery(credential: string): ReturnType<Audit['recovery']> {
    return this.#audit.recovery(credential);
  }

  verify(progress?: Progress): Promise<ChainReport> {
    return this.#audit.verify(progress);
  }

  integrity(progress?: Progress): Promise<IntegrityReport> {
    return this.#audit.integrity(progress);
  }

  get inFlight(): number {
    return this.#parts.pipeline.inFlight;
  }

  /** Set once the ledger can no longer write. */
  get failure(): unknown {
    return this.#parts.pipeline.failure;
  }

  /** Saves the state now, so that the next opening has nothing to replay. */
  checkpoint(): Promise<void> {
    return this.#parts.checkpointer.run();
  }

  /** Lets what is in flight end, saves, and releases everything. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { pipeline, checkpointer, home, log } = this.#parts;
    await pipeline.drain();
    this.#closed.abort();
    try {
      if (pipeline.failure === undefined) await checkpointer.run();
      else await checkpointer.exclusively(async () => {});
    } finally {
      await home.close();
      // A failed log rejects again when it is closed; its callers have the error.
      await log.close().catch((error) => {
        if (pipeline.failure === undefined) throw error;
      });
    }
  }
}
