import type { OperationId, RecordState, Revision } from './record.ts';
import type { EpochMs } from './units.ts';

/**
 * Where records live. One atomic verb does all of it: claim, renew, settle, release and forget are swaps.
 *
 * A store keeps bytes and three index columns; it knows nothing of policy. The laws every store obeys are
 * run by `storeSuite` of `onceward/testing`:
 * - of N concurrent swaps with the same expectation exactly one wins, and the losers see the winner;
 * - a revision rises and is never issued twice, not after a restart and not after the record was forgotten;
 * - bytes come back unchanged;
 * - an acknowledged swap survives what `traits.durability` says.
 */
export interface RecordStore {
  readonly traits: StoreTraits;

  read(id: OperationId): Promise<StoredRecord | null>;

  /**
   * Replaces what is stored if its revision is still `expected` (`null`: nothing is stored).
   * `next: null` forgets the record. Losing is a result; a rejection (`StoreError`) means that the outcome is
   * unknown, unless the error says `applied: 'no'`.
   */
  swap(id: OperationId, expected: Revision | null, next: NextRecord | null): Promise<SwapResult>;

  /** The same without a wait, for stores that need none. Absent: the store is elsewhere, or on a disk. */
  swapNow?(id: OperationId, expected: Revision | null, next: NextRecord | null): SwapResult;

  /**
   * Stores records of different ids where nothing is stored yet: all of them or none, whatever dies meanwhile. Gives
   * their revisions in order, or `null` when one of the places is taken or may be; then nothing was changed, and swaps
   * tell more. Fails as `swap` does. Absent: the store cannot write several at once.
   */
  insertAll?(records: readonly InsertedRecord[]): Promise<readonly Revision[] | null>;

  /** In no particular order; what changes while it runs may or may not be seen. */
  scan(query: ScanQuery): AsyncIterable<ScannedRecord>;

  /** How many records are kept, by state. May lag by seconds on shared stores. */
  count(): Promise<StoreCount>;

  /**
   * Forgets up to `limit` settled records whose `dueAt` is not after `now`, and says how many it forgot.
   * Absent: the sweeper scans and swaps.
   */
  forgetDue?(now: EpochMs, limit: number): Promise<number>;

  /**
   * A share of the claims that are due, for a store that finds them only by looking at all records: calls one after
   * the other come by each. Settled ones are given too, unless the store forgets them itself or by `forgetDue`. Absent:
   * `scan` looks at little else than what is due.
   */
  scanDue?(now: EpochMs, limit: number): AsyncIterable<ScannedRecord>;

  /**
   * The store's own wall clock, which all processes that share it can agree on. `null`: it cannot be asked for the
   * time, and never will be. Absent: the store goes by the clock of the machine it is opened on.
   */
  clock?(): Promise<EpochMs | null>;

  /** Settles when the record has changed since `seen`, or may have. Absent or early: the waiter polls. */
  changed?(id: OperationId, seen: Revision, signal: AbortSignal): Promise<void>;

  close(): Promise<void>;
}

/** A store whose records can be written in the caller's own transaction, so that both commit or neither. */
export interface TransactionalStore<Tx> extends RecordStore {
  within(tx: Tx): RecordStore;
}

export interface StoreTraits {
  readonly name: string;
  /** Proven when the store was opened, not claimed. `none`: lost with the process. */
  readonly durability: 'none' | 'process' | 'machine' | 'replicated';
  /** The longest `bytes` a swap accepts. */
  readonly maxRecordBytes: number;
  /**
   * For embedded stores: the first revision of this life. A pending record below it was claimed by a process
   * that is gone, whatever its lease says. `null`: the store is shared, leases decide.
   */
  readonly firstRevisionOfLife: Revision | null;
}

export interface StoredRecord {
  readonly revision: Revision;
  readonly bytes: Uint8Array;
}

export interface NextRecord {
  readonly bytes: Uint8Array;
  readonly state: RecordState;
  /** When the sweeper should visit it; `null` is never. */
  readonly dueAt: EpochMs | null;
}

export interface InsertedRecord {
  readonly id: OperationId;
  readonly next: NextRecord;
}

export type SwapResult =
  | { readonly won: true; readonly revision: Revision }
  | { readonly won: false; readonly current: StoredRecord | null };

export interface ScanQuery {
  readonly states?: readonly RecordState[];
  readonly scope?: string;
  /** Only records with `dueAt` at or before this. */
  readonly dueBefore?: EpochMs;
  readonly limit: number;
}

export interface ScannedRecord extends StoredRecord {
  readonly id: OperationId;
  readonly state: RecordState;
  readonly dueAt: EpochMs | null;
}

export type StoreCount = Readonly<Record<RecordState, number>>;
