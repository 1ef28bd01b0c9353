import { StoreError } from 'onceward';
import { BlockBook } from './blocks/block-book.ts';
import type { LedgerLog } from './log/ledger-log.ts';
import { decodeEntry } from './log/log-entry.ts';
import { applyEntry } from './pipeline/apply.ts';
import type { ClientRow } from './pipeline/client-row.ts';
import type { EntityRow } from './pipeline/entity-row.ts';
import { combineRoots, Machine } from './pipeline/machine.ts';
import { CLIENT_PREFIX, ENTITY_PREFIX } from './pipeline/row-keys.ts';
import { sealBlock } from './pipeline/seal.ts';
import { AccountTable } from './state/account-table.ts';
import type { CheckpointMeta, LedgerHome } from './state/ledger-home.ts';
import { toHex } from './state/merkle-list.ts';
import { RowTable } from './state/row-table.ts';

export interface Recovered {
  readonly machine: Machine;
  readonly book: BlockBook;
  /** How many entries were replayed, and how long their texts were. */
  readonly replayed: { readonly entries: number; readonly byteLength: number };
  /** Why the saved state was not used, if it was not. */
  readonly rebuiltBecause: string | null;
}

/**
 * Brings back the state as it was: what the home saved, if every byte of it adds up to the root of its block,
 * else the copy that was set aside; then what the log has beyond it.
 */
export async function recover(
  home: LedgerHome,
  log: LedgerLog,
  rowLimit?: number,
): Promise<Recovered> {
  let loaded = tryLoad(home, rowLimit);
  const rebuiltBecause = typeof loaded === 'string' ? loaded : findGap(loaded.machine, log);
  if (rebuiltBecause !== null) {
    await home.restoreSnapshot();
    loaded = tryLoad(home, rowLimit);
  }
  if (typeof loaded === 'string') throw unreadable(`neither state nor snapshot: ${loaded}`);
  const { machine, book } = loaded;
  const gap = findGap(machine, log);
  if (gap !== null) throw unreadable(gap);
  if (log.lastIndex > 0 && log.lastIndex < machine.height) {
    throw unreadable(`the log ends at ${log.lastIndex}, before the state at ${machine.height}`);
  }
  let entries = 0;
  let byteLength = 0;
  for await (const record of log.read(machine.height + 1)) {
    const entry = decodeEntry(record.text);
    book.add(sealBlock(machine, applyEntry(machine, entry), book.tipHash));
    entries += 1;
    byteLength += record.text.length;
  }
  return { machine, book, replayed: { entries, byteLength }, rebuiltBecause };
}

/** A state that ends before the log begins cannot go on with it; one that was lost is such a state, too. */
function findGap({ height }: Machine, log: LedgerLog): string | null {
  if (log.lastIndex === 0 || log.firstIndex <= height + 1) return null;
  return `the log begins at ${log.firstIndex}, the state ends at ${height}`;
}

function unreadable(why: string): StoreError {
  return new StoreError(
    'ONCE_RECORD_UNREADABLE',
    `The ledger cannot be brought back (${why}). Restore its folder from a backup.`,
    { applied: 'no' },
  );
}

/** The saved state, or why it cannot be used. */
function tryLoad(
  home: LedgerHome,
  rowLimit?: number,
): { machine: Machine; book: BlockBook } | string {
  try {
    return load(home, rowLimit);
  } catch (error) {
    return (error as Error).message;
  }
}

function load(home: LedgerHome, rowLimit?: number): { machine: Machine; book: BlockBook } | string {
  const book = new BlockBook(home);
  const meta = home.meta();
  const source = { readPage: (page: number) => home.rowPage(page) };
  if (meta === undefined) {
    return {
      machine: new Machine(book, new AccountTable(), RowTable.empty(source, rowLimit)),
      book,
    };
  }
  const accounts = new AccountTable();
  const top = toHex(accounts.restore(home.accountPages(), meta.accountCount));
  const times = new Map<string, number>();
  const rows = RowTable.load(
    source,
    home.rowPages(),
    (bucket) => collectTimes(bucket, times),
    rowLimit,
  );
  rows.rowCount = meta.rowCount;
  if (combineRoots(meta.accountCount, top, rows.root) !== meta.state) {
    return `the saved state does not match the state root of block ${meta.height}`;
  }
  const machine = new Machine(book, accounts, rows);
  resume(machine, meta, times);
  for (const run of home.keyRuns()) machine.window.restore(run);
  if (machine.window.size !== meta.keyCount) {
    return `${machine.window.size} idempotency keys are saved where there should be ${meta.keyCount}`;
  }
  return { machine, book };
}

function resume(machine: Machine, meta: CheckpointMeta, times: ReadonlyMap<string, number>): void {
  machine.height = meta.height;
  machine.term = meta.term;
  machine.time = meta.time;
  machine.adopt(meta.settings);
  for (const [name, time] of times) {
    (name.startsWith(CLIENT_PREFIX) ? machine.lastSeen : machine.expiries).set(name, time);
  }
}

/** Finds the rows that will be forgotten by time. Most buckets have none, and are not taken apart for it. */
function collectTimes(bucket: string, times: Map<string, number>): void {
  if (!bucket.includes(`["${CLIENT_PREFIX}`) && !bucket.includes(`["${ENTITY_PREFIX}`)) return;
  for (const [name, value] of JSON.parse(bucket) as [string, ClientRow & EntityRow][]) {
    if (name.startsWith(CLIENT_PREFIX)) times.set(name, value.last_seen);
    else if (name.startsWith(ENTITY_PREFIX) && value.expires_at !== null) {
      times.set(name, value.expires_at);
    }
  }
}
