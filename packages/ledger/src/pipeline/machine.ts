import type { MachineSettings } from '../log/log-entry.ts';
import type { ChangeableSettings } from '../rules/changeable-settings.ts';
import { AccountTable } from '../state/account-table.ts';
import { KeyWindow } from '../state/key-window.ts';
import { digest, toHex } from '../state/merkle-list.ts';
import { RowTable } from '../state/row-table.ts';
import { RECEIPT_WORDS } from './apply/receipt.ts';
import { KEYS_ROW, SETTINGS_ROW, SINCE_ROW } from './apply/row-keys.ts';

/** What a new ledger begins with; its first entry brings the real ones. */
export const FIRST_SETTINGS: MachineSettings = {
  idempotency_ttl_ms: 0,
  idempotency_cleanup_ms: 1,
  database_conflict: 'rollback',
  eviction_interval: 1,
  client_ttl_ms: 0,
  hash_key: '',
};

/** Both windows of keys, as the row that brings them under the state root. */
export type KeysRow = { readonly transactions: string; readonly writes: string };

/**
 * Log times before which keys were forgotten by a shorter time to live than the one that holds now. A longer one does
 * not bring them back.
 */
export type SinceRow = { readonly transactions: number; readonly writes: number };

const NEVER_RAISED: SinceRow = { transactions: 0, writes: 0 };

/**
 * Everything that applying entries changes, and all that applying them reads. Two machines that have applied
 * the same entries are equal in every byte, whatever blocks either of them has kept.
 */
export class Machine {
  readonly accounts: AccountTable;
  readonly rows: RowTable;
  /** The keys of transactions. */
  readonly window = new KeyWindow();
  /** The keys of sequenced writes, each with its receipt. */
  readonly receipts = new KeyWindow(RECEIPT_WORDS);
  /** Row keys of clients, with the log time at which each last wrote. */
  readonly lastSeen = new Map<string, number>();
  /** Row keys of entities that expire, with the log time at which each does. */
  readonly expiries = new Map<string, number>();
  settings: MachineSettings = FIRST_SETTINGS;
  /** The index of the last entry applied, which is the height of its block. */
  height = 0;
  term = 0;
  /** What the last entry said was answered. Decides nothing here: blocks beyond it are not trimmed. */
  answered = 0;
  /** The time of the last entry, made to never fall. */
  time = 0;

  constructor(accounts = new AccountTable(), rows?: RowTable) {
    this.accounts = accounts;
    this.rows = rows ?? RowTable.empty({ readPage: () => undefined });
  }

  adopt(settings: MachineSettings): void {
    this.settings = settings;
    this.rows.write(SETTINGS_ROW, settingsRow(settings));
  }

  keysSince(): SinceRow {
    return this.rows.read<SinceRow>(SINCE_ROW) ?? NEVER_RAISED;
  }

  /** Before settings with a longer time to live are adopted. */
  noteRaise({ idempotency_ttl_ms, client_ttl_ms }: ChangeableSettings): void {
    const { settings, time } = this;
    const before = this.keysSince();
    const isRaised = {
      transactions: idempotency_ttl_ms > settings.idempotency_ttl_ms,
      writes: client_ttl_ms > settings.client_ttl_ms,
    };
    if (!isRaised.transactions && !isRaised.writes) return;
    const since = (kind: keyof SinceRow, ttlMs: number) =>
      isRaised[kind] ? Math.max(before[kind], time - ttlMs) : before[kind];
    const row: SinceRow = {
      transactions: since('transactions', settings.idempotency_ttl_ms),
      writes: since('writes', settings.client_ttl_ms),
    };
    this.rows.write(SINCE_ROW, row);
  }

  mark(): readonly [number, number] {
    return [this.accounts.mark(), this.rows.mark()];
  }

  undoTo([accounts, rows]: readonly [number, number]): void {
    this.accounts.undoTo(accounts);
    this.rows.undoTo(rows);
  }

  /** The state root: one hash of all accounts, rows, settings and remembered keys, as of now. */
  seal(): string {
    const keys = this.keysRow();
    const before = this.rows.read<KeysRow>(KEYS_ROW);
    if (before?.transactions !== keys.transactions || before.writes !== keys.writes) {
      this.rows.write(KEYS_ROW, keys);
    }
    const accounts = toHex(this.accounts.seal());
    return combineRoots(this.accounts.count, accounts, this.rows.seal());
  }

  keysRow(): KeysRow {
    return { transactions: this.window.seal(), writes: this.receipts.seal() };
  }
}

/** Rows are shown in proofs; the secret is not. */
export function settingsRow({ hash_key, ...rest }: MachineSettings) {
  return { ...rest, hash_key: toHex(digest(`Y${hash_key}`)) };
}

export function combineRoots(accountCount: number, accounts: string, rows: string): string {
  return toHex(digest(`S${accountCount}:${accounts}:${rows}`));
}
