import { join } from 'node:path';
import { StoreError } from 'onceward';
import type { ChainReport, IntegrityReport, Progress, StateReport } from './audit.ts';
import { type Block, NO_BLOCK, parseBlock } from './blocks/block.ts';
import { findBlockFault } from './blocks/block-fault.ts';
import { ReadOnlyFileSystem } from './home/read-only-file-system.ts';
import { SavedFiles, savedBlocks, snapshotHeight } from './home/saved-files.ts';
import { loadState } from './load-state.ts';
import { EmbeddedLog } from './log/embedded-log.ts';
import { decodeEntry } from './log/log-entry.ts';
import { applyEntry } from './pipeline/apply/apply.ts';
import { Machine } from './pipeline/machine.ts';
import { sealBlock } from './pipeline/seal.ts';
import { type MachineSettings, settingsOf } from './settings.ts';
import { sumBalances } from './state/account-sums.ts';

export interface LogReport {
  readonly ok: boolean;
  /** The entries that are kept. */
  readonly first: number;
  readonly last: number;
  readonly problem: string | null;
}

export interface InspectionReport extends IntegrityReport {
  readonly log: LogReport;
}

/**
 * Checks a ledger at rest without opening it: reads its files, writes nothing, and leaves no trace in them. Rejects
 * with `ONCE_STORE_LOCKED` if a process has it open: that one can be asked itself.
 */
export async function inspectLedger(
  directory: string,
  progress: Progress = () => {},
): Promise<InspectionReport> {
  const fileSystem = new ReadOnlyFileSystem();
  const folder = join(directory, 'log');
  await fileSystem.lock(folder);
  const inspection = new Inspection(join(directory, 'state'));
  const state = inspection.checkState();
  const chain = inspection.checkChain(progress);
  const log = await inspection.checkLog(folder, fileSystem);
  // A process that opened it meanwhile has changed what was read.
  await fileSystem.lock(folder);
  return { ok: chain.ok && state.ok && log.ok, chain, state, log };
}

/** What the ledger in a folder goes by, as of its last checkpoint. Reads only. */
export function readSettings(directory: string): MachineSettings | null {
  const meta = new SavedFiles(join(directory, 'state'), 'state').meta();
  return meta === undefined ? null : settingsOf(meta.settings);
}

class Inspection {
  readonly #directory: string;
  #machine: Machine | null = null;
  readonly #hashes = new Map<number, string>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Every saved byte against the root of its block. */
  checkState(): StateReport {
    const files = new SavedFiles(this.#directory, 'state');
    const machine = files.check() ?? loadState(files);
    if (typeof machine === 'string') {
      return { ok: false, height: 0, assets: [], problem: machine };
    }
    this.#machine = machine;
    const { height } = machine;
    const steps = sumBalances(machine.accounts);
    let step = steps.next();
    while (step.done !== true) step = steps.next();
    const assets = step.value;
    const unbalanced = assets.find(({ sum }) => sum !== 0n);
    if (unbalanced === undefined) return { ok: true, height, assets, problem: null };
    const problem = `the balances of ${unbalanced.asset} add up to ${unbalanced.sum}, not to 0`;
    return { ok: false, height, assets, problem };
  }

  checkChain(progress: Progress): ChainReport {
    const last = this.#machine?.height ?? 0;
    let before: Block | undefined;
    let first = 0;
    let transactions = 0;
    const fail = (height: number, problem: string): ChainReport => {
      return { ok: false, first, last, transactions, problem: `block ${height} ${problem}` };
    };
    try {
      for (const text of savedBlocks(this.#directory)) {
        const height = before === undefined ? null : before.header.height + 1;
        if (text === undefined) return fail(height ?? 0, 'does not match its checksum');
        const block = parseBlock(text);
        first ||= block.header.height;
        const problem = findBlockFault(height ?? first, block, before);
        if (problem !== null) return fail(height ?? first, problem);
        this.#hashes.set(block.header.height, block.hash);
        transactions += block.texts.length;
        before = block;
        progress(block.header.height - first + 1, Math.max(last - first + 1, 1));
      }
    } catch (error) {
      return fail((before?.header.height ?? 0) + 1, `cannot be read: ${(error as Error).message}`);
    }
    if (last > 0 && (before?.header.height ?? 0) < last) return fail(last, 'is missing');
    return { ok: true, first, last: before?.header.height ?? 0, transactions, problem: null };
  }

  /**
   * Replays the whole log in memory, from the snapshot or from nothing, and compares every block with the one that
   * is kept: what a rebuild would give is what is there.
   */
  async checkLog(directory: string, fileSystem: ReadOnlyFileSystem): Promise<LogReport> {
    let log: EmbeddedLog | null = null;
    const range = () => ({ first: log?.firstIndex ?? 0, last: log?.lastIndex ?? 0 });
    try {
      log = await EmbeddedLog.open({ directory, fileSystem });
      const problem = await this.#replay(log);
      return { ok: problem === null, ...range(), problem };
    } catch (error) {
      if (error instanceof StoreError && error.code === 'ONCE_STORE_LOCKED') throw error;
      return { ok: false, ...range(), problem: (error as Error).message };
    } finally {
      await log?.close();
    }
  }

  async #replay(log: EmbeddedLog): Promise<string | null> {
    const height = this.#machine?.height ?? 0;
    if (log.lastIndex === 0 && height > 0) return `the log is missing; the state is at ${height}`;
    if (log.lastIndex < height) {
      return `the log ends at entry ${log.lastIndex}, before the state at ${height}`;
    }
    const base = this.#base(log.firstIndex === 1);
    if (typeof base === 'string') return base;
    if (log.firstIndex > base.height + 1) {
      return `the log begins at ${log.firstIndex}, behind the snapshot at ${base.height}`;
    }
    let previous = base.height === 0 ? NO_BLOCK : this.#hashes.get(base.height);
    if (previous === undefined) return `block ${base.height}, from which to go on, is missing`;
    for await (const record of log.read(base.height + 1)) {
      const applied = applyEntry(base, decodeEntry(record.text));
      const kept = this.#hashes.get(record.index);
      const block = sealBlock(base, applied, previous);
      previous = block.hash;
      if (kept !== undefined && kept !== block.hash) {
        return `entry ${record.index} does not give the block that is kept`;
      }
    }
    return null;
  }

  #base(isWhole: boolean): Machine | string {
    if (isWhole) return new Machine();
    const height = snapshotHeight(this.#directory);
    if (height === 0) return 'the log does not begin at 1, and there is no snapshot';
    const files = new SavedFiles(this.#directory, `snapshot-${height}`);
    const machine = files.check() ?? loadState(files);
    return typeof machine === 'string' ? `the snapshot cannot be used: ${machine}` : machine;
  }
}
