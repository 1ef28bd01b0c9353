import type { BlockHeader } from '../blocks/block.ts';
import type { MachineSettings } from '../log/log-entry.ts';
import type { KeyRun } from './key-window.ts';

/**
 * What belongs to the state besides its pages. All of it is saved in one step, so that a restart resumes
 * exactly there.
 */
export interface CheckpointMeta {
  /** 2: the form described here. */
  readonly version: 2;
  /** Of the last block whose entry the pages know of. */
  readonly header: BlockHeader;
  readonly accountCount: number;
  readonly rowCount: number;
  readonly settings: MachineSettings;
  /** How long the texts of all blocks are that are kept. */
  readonly historyBytes: number;
}

/** Changes of accounts. Good until `save` resolves; who keeps them longer makes copies. */
export interface AccountPages {
  /** The records of all accounts of a page, if some of them are new. */
  readonly accountPages: ReadonlyMap<number, Uint8Array>;
  /** What journal entries have changed in the accounts of a page: six times less. */
  readonly balancePages: ReadonlyMap<number, Uint8Array>;
}

/** A page of accounts as it was saved: the records, and what has changed in them since. */
export interface AccountPage {
  readonly records: Uint8Array;
  readonly balances: Uint8Array | undefined;
}

/** The two windows of keys: of transactions, and of sequenced writes with their receipts. */
export type WindowName = 'keys' | 'receipts';

export interface WindowChanges {
  readonly runs: readonly KeyRun[];
  /** Runs that end before this are worthless. */
  readonly since: number;
}

/** Changes since the last checkpoint. */
export interface Checkpoint extends AccountPages {
  readonly meta: CheckpointMeta;
  readonly rowPages: ReadonlyMap<number, string>;
  readonly windows: Readonly<Record<WindowName, WindowChanges>>;
  /** The bytes of their texts. */
  readonly blocks: ReadonlyMap<number, Buffer>;
  /** Blocks below this height are no longer kept. */
  readonly firstBlock: number;
}

/** Where the applied state and the sealed blocks live between restarts. The log can always rebuild it. */
export interface LedgerHome {
  /** What was damaged when the home was opened, and is therefore not there; `null` if nothing was. */
  damage(): string | null;
  meta(): CheckpointMeta | undefined;
  /** In order. */
  accountPages(): Iterable<AccountPage>;
  rowPages(): Iterable<string>;
  rowPage(page: number): string | undefined;
  /** Oldest first. */
  keyRuns(window: WindowName): Iterable<KeyRun>;
  /** The bytes of a block's text. Valid until the next read. Throws `StoreError` if they were damaged. */
  block(height: number): Buffer | undefined;
  /** The height of the oldest block that is kept. */
  firstBlock(): number | undefined;
  lastBlock(): number | undefined;
  blockCount(): number;

  /** Durable when it resolves: all of it or nothing, blocks no later than the state. */
  save(checkpoint: Checkpoint): Promise<void>;
  /** Blocks that the saved state does not reach up to yet. Durable when it resolves. */
  saveBlocks(blocks: ReadonlyMap<number, Buffer>): Promise<void>;

  /** Sets a copy of the state aside and resolves to its height, once it is durable. The copy before it goes. */
  snapshot(): Promise<number>;
  /** The height of the copy, or 0 if there is none. */
  snapshotHeight(): number;
  /** Puts the copy, or nothing at all, in the place of the state. Blocks stay. */
  restoreSnapshot(): Promise<void>;
  /** Drops the state, and keeps copy and blocks. */
  dropState(): Promise<void>;

  close(): Promise<void>;
}
