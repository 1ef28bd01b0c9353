import type { MachineSettings } from '../log/log-entry.ts';
import { AccountTable } from '../state/account-table.ts';
import type { Location } from '../state/key-table.ts';
import { KeyWindow } from '../state/key-window.ts';
import { digest, toHex } from '../state/merkle-list.ts';
import { RowTable } from '../state/row-table.ts';

/** What a new ledger begins with; the first barrier brings the real ones. */
export const FIRST_SETTINGS: MachineSettings = {
  idempotency_ttl_ms: 0,
  idempotency_cleanup_ms: 1,
  database_conflict: 'rollback',
  eviction_interval: 1,
  client_ttl_ms: 0,
  hash_seed: 0,
};

/** Blocks that were sealed before, for the one rule that needs them: whether a key has been used. */
export interface PastBlocks {
  /** A transaction's text and the time of its block; `undefined` if the block is no longer kept. */
  transactionAt(location: Location): { readonly text: string; readonly at: number } | undefined;
}

/**
 * Everything that applying entries changes. Two machines that have applied the same entries are equal in every
 * byte.
 */
export class Machine {
  readonly accounts: AccountTable;
  readonly rows: RowTable;
  window: KeyWindow;
  /** Row keys of clients, with the log time at which each last wrote. */
  readonly lastSeen = new Map<string, number>();
  /** Row keys of entities that expire, with the log time at which each does. */
  readonly expiries = new Map<string, number>();
  readonly past: PastBlocks;
  settings: MachineSettings = FIRST_SETTINGS;
  /** The index of the last entry applied, which is the height of its block. */
  height = 0;
  term = 0;
  /** The time of the last entry, made to never fall. */
  time = 0;

  constructor(past: PastBlocks, accounts = new AccountTable(), rows?: RowTable) {
    this.past = past;
    this.accounts = accounts;
    this.rows = rows ?? RowTable.empty({ readPage: () => undefined });
    this.window = new KeyWindow(0);
  }

  adopt(settings: MachineSettings): void {
    if (settings.hash_seed !== this.settings.hash_seed) {
      // Only the very first barrier brings a seed: there is nothing in the window yet.
      this.window = new KeyWindow(settings.hash_seed);
    }
    this.settings = settings;
  }

  mark(): readonly [number, number] {
    return [this.accounts.mark(), this.rows.mark()];
  }

  undoTo([accounts, rows]: readonly [number, number]): void {
    this.accounts.undoTo(accounts);
    this.rows.undoTo(rows);
  }

  /** The state root: one hash of all accounts and all rows, as of now. */
  seal(): string {
    const accounts = toHex(this.accounts.seal());
    return combineRoots(this.accounts.count, accounts, this.rows.seal());
  }
}

export function combineRoots(accountCount: number, accounts: string, rows: string): string {
  return toHex(digest(`S${accountCount}:${accounts}:${rows}`));
}
