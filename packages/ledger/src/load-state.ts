import { EarlierFormat } from './earlier-format.ts';
import type { ClientRow } from './pipeline/apply/client-row.ts';
import type { EntityRow } from './pipeline/apply/entity-row.ts';
import { CLIENT_PREFIX, ENTITY_PREFIX, KEYS_ROW, SETTINGS_ROW } from './pipeline/apply/row-keys.ts';
import { combineRoots, type KeysRow, Machine, settingsRow } from './pipeline/machine.ts';
import { AccountTable } from './state/account-table.ts';
import type { CheckpointMeta, LedgerHome } from './state/ledger-home.ts';
import { toHex } from './state/merkle-list.ts';
import { RowTable } from './state/row-table.ts';

/** What of a home the state is in. */
export type SavedState = Pick<
  LedgerHome,
  'meta' | 'accountPages' | 'rowPages' | 'rowPage' | 'keyRuns'
>;

/** The saved state, or why it cannot be used; that of a new ledger if nothing was saved. */
export function loadState(home: SavedState, rowLimit?: number): Machine | string {
  try {
    return load(home, rowLimit);
  } catch (error) {
    if (error instanceof EarlierFormat) throw error;
    return (error as Error).message;
  }
}

function load(home: SavedState, rowLimit?: number): Machine | string {
  const meta = home.meta();
  const source = { readPage: (page: number) => home.rowPage(page) };
  if (meta === undefined) return new Machine(new AccountTable(), RowTable.empty(source, rowLimit));
  const { header, accountCount } = meta;
  const accounts = new AccountTable();
  const top = toHex(accounts.restore(home.accountPages(), accountCount));
  const times = new Map<string, number>();
  const rows = RowTable.load(
    source,
    home.rowPages(),
    (bucket) => collectTimes(bucket, times),
    rowLimit,
  );
  rows.rowCount = meta.rowCount;
  if (combineRoots(accountCount, top, rows.root) !== header.state) {
    return `the saved state does not match the state root of block ${header.height}`;
  }
  const machine = new Machine(accounts, rows);
  resume(machine, meta, times);
  for (const run of home.keyRuns('keys')) machine.window.restore(run);
  for (const run of home.keyRuns('receipts')) machine.receipts.restore(run);
  return findForgery(machine) ?? machine;
}

/** Keys and settings are saved beside the rows; the rows, which the state root has vouched for, vouch for them. */
function findForgery(machine: Machine): string | undefined {
  const { rows, settings, height } = machine;
  const held = rows.read<KeysRow>(KEYS_ROW);
  const keys = machine.keysRow();
  if (held?.transactions !== keys.transactions || held.writes !== keys.writes) {
    return `the saved keys do not match the state root of block ${height}`;
  }
  if (JSON.stringify(rows.read(SETTINGS_ROW)) === JSON.stringify(settingsRow(settings))) return;
  return `the saved settings do not match the state root of block ${height}`;
}

function resume(
  machine: Machine,
  { header, settings }: CheckpointMeta,
  times: ReadonlyMap<string, number>,
): void {
  machine.height = header.height;
  machine.term = header.term;
  machine.time = header.at;
  machine.settings = settings;
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
