import type { MachineSettings } from '../log/log-entry.ts';
import type { KeyRun } from './key-window.ts';

/**
 * What belongs to the state besides its pages. All of it is saved in one step, so that a restart resumes
 * exactly there.
 */
export interface CheckpointMeta {
  /** 1: the form described here. */
  readonly version: 1;
  /** The index of the last entry that the pages know of. */
  readonly height: number;
  readonly term: number;
  readonly time: number;
  /** The hash of the block at that height. */
  readonly tip: string;
  readonly state: string;
  readonly accountCount: number;
  readonly rowCount: number;
  readonly keyCount: number;
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

/** Changes since the last checkpoint. */
export interface Checkpoint extends AccountPages {
  readonly meta: CheckpointMeta;
  readonly rowPages: ReadonlyMap<number, string>;
  readonly keyRuns: readonly KeyRun[];
  /** Runs that end before this are worthless. */
  readonly keysSince: number;
  /** The bytes of their texts. */
  readonly blocks: ReadonlyMap<number, Buffer>;
  /** Blocks below this height are no longer kept. */
  readonly firstBlock: number;
}

/** Where the applied state and the sealed blocks live between restarts. The log can always rebuild it. */
export interface LedgerHome {
  meta(): CheckpointMeta | undefined;
  /** In order. */
  accountPages(): Iterable<AccountPage>;
  rowPages(): Iterable<string>;
  rowPage(page: number): string | undefined;
  /** Oldest first. */
  keyRuns(): Iterable<KeyRun>;
  /** The bytes of a block's text. They may be gone with the next read. */
  block(height: number): Buffer | undefined;
  /** The height of the oldest block that is kept. */
  firstBlock(): number | undefined;

  /** Durable when it resolves: all of it or nothing, blocks no later than the state. */
  save(checkpoint: Checkpoint): Promise<void>;

  /** Sets a copy of the state aside and resolves to its height, once it is durable. The copy before it goes. */
  snapshot(): Promise<number>;
  /** The height of the copy, or 0 if there is none. */
  snapshotHeight(): number;
  /** Puts the copy, or nothing at all, in the place of the state. Blocks stay. */
  restoreSnapshot(): Promise<void>;

  close(): Promise<void>;
}
