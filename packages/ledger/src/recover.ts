import { StoreError } from 'onceward';
import { type Block, blockText, hashHeader, parseBlock, transactionsRoot } from './blocks/block.ts';
import { BlockBook, firstWithoutGap } from './blocks/block-book.ts';
import { EarlierFormat } from './earlier-format.ts';
import { loadState } from './load-state.ts';
import type { LedgerLog } from './log/ledger-log.ts';
import { decodeEntry } from './log/log-entry.ts';
import { applyEntry } from './pipeline/apply/apply.ts';
import type { Machine } from './pipeline/machine.ts';
import { sealBlock } from './pipeline/seal.ts';
import type { LedgerHome } from './state/ledger-home.ts';

export interface Recovered {
  readonly machine: Machine;
  readonly book: BlockBook;
  /** How many entries were replayed, and how long their texts were. */
  readonly replayed: { readonly entries: number; readonly byteLength: number };
  /** Why the saved state was not used, if it was not. */
  readonly rebuiltBecause: string | null;
  /** The index up to which all requests had been answered when the last entry was written. */
  readonly answered: number;
}

/**
 * Brings back the state as it was: what the home saved, if every byte of it adds up to the root of its block,
 * else the copy that was set aside, else nothing; then what the log has beyond it. Whatever of state, copy and
 * history was lost, the log gives the same bytes again, or the ledger is not opened.
 */
export async function recover(
  home: LedgerHome,
  log: LedgerLog,
  rowLimit?: number,
): Promise<Recovered> {
  assertLogIsWhole(home, log);
  const { machine, rebuiltBecause } = await findBase(home, log, rowLimit);
  const gap = findGap(machine.height, log);
  if (gap !== null) throw unreadable(gap);
  const book = new BlockBook(home);
  let entries = 0;
  let byteLength = 0;
  let answered = 0;
  // From the last entry that the state knows, which has what was answered.
  for await (const record of log.read(Math.max(1, machine.height))) {
    const entry = decodeEntry(record.text);
    answered = entry.answered;
    if (record.index <= machine.height) continue;
    const block = sealBlock(machine, applyEntry(machine, entry), book.tipHash);
    assertSameBlock(home, block);
    book.add(block);
    if (book.isFull) await book.flush();
    entries += 1;
    byteLength += record.text.length;
  }
  const why = home.damage() ?? rebuiltBecause;
  return { machine, book, replayed: { entries, byteLength }, rebuiltBecause: why, answered };
}

/** What the log has lost that it once had, nothing else can bring back. */
function assertLogIsWhole(home: LedgerHome, log: LedgerLog): void {
  const known = {
    state: safely(() => home.meta()?.header.height) ?? 0,
    snapshot: home.snapshotHeight(),
    history: home.lastBlock() ?? 0,
  };
  for (const [what, height] of Object.entries(known)) {
    if (height <= log.lastIndex) continue;
    const end =
      log.lastIndex === 0 ? 'the log is missing' : `the log ends at entry ${log.lastIndex}`;
    throw unreadable(`${end}, but the ${what} knows of entry ${height}`);
  }
}

/** Damage is found, and dealt with, where the state is loaded. */
function safely<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof EarlierFormat) throw error;
    return undefined;
  }
}

async function findBase(home: LedgerHome, log: LedgerLog, rowLimit?: number) {
  const saved = loadState(home, rowLimit);
  const why = typeof saved === 'string' ? saved : findLoss(saved, home, log);
  if (why === null) return { machine: saved as Machine, rebuiltBecause: null };
  const isHistoryLost = typeof saved !== 'string' && findGap(saved.height, log) === null;
  if (home.snapshotHeight() > 0 && !(isHistoryLost && log.firstIndex === 1)) {
    await home.restoreSnapshot();
    const copy = loadState(home, rowLimit);
    if (typeof copy !== 'string') return { machine: copy, rebuiltBecause: why };
    if (log.firstIndex > 1) throw unreadable(`neither state nor snapshot: ${why}; ${copy}`);
  }
  await home.dropState();
  return { machine: loadState(home, rowLimit) as Machine, rebuiltBecause: why };
}

/** Why a state that is sound cannot go on, or blocks must be made again. */
function findLoss({ height }: Machine, home: LedgerHome, log: LedgerLog): string | null {
  const gap = findGap(height, log);
  if (gap !== null) return gap;
  if (height === 0) return home.snapshotHeight() > 0 ? 'the state is missing' : null;
  // Older blocks than these the log cannot give again.
  const base = log.firstIndex === 1 ? 0 : home.snapshotHeight();
  if (base >= height) return null;
  const first = firstWithoutGap(home, height);
  if (first > height) return `the history has not all blocks up to ${height}`;
  for (let at = Math.max(first, base + 1); at <= height; at += 1) {
    if (safely(() => home.block(at)) === undefined) return `block ${at} of the history is damaged`;
  }
  return null;
}

/** A state that ends before the log begins cannot go on with it; one that was lost is such a state, too. */
function findGap(height: number, log: LedgerLog): string | null {
  if (log.lastIndex === 0 || log.firstIndex <= height + 1) return null;
  return `the log begins at ${log.firstIndex}, the state ends at ${height}`;
}

/** A block that was damaged is replaced. One that is sound and another one means that the log is another one. */
function assertSameBlock(home: LedgerHome, block: Block): void {
  const { height } = block.header;
  const stored = safely(() => home.block(height));
  if (stored === undefined || stored.equals(Buffer.from(blockText(block)))) return;
  const other = safely(() => parseBlock(stored.toString()));
  if (other === undefined || other.header.transactions !== transactionsRoot(other.texts)) return;
  if (other.header.height !== height || hashHeader(other.header) === block.hash) return;
  throw unreadable(`block ${height} of the history is not the one that the log gives`);
}

function unreadable(why: string): StoreError {
  return new StoreError(
    'ONCE_RECORD_UNREADABLE',
    `The ledger cannot be brought back (${why}). Restore its folder from a backup.`,
    { applied: 'no' },
  );
}
