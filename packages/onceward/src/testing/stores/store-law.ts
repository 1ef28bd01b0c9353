import type { RecordStore } from '../../engine/record-store.ts';

export interface OpenedStore {
  readonly store: RecordStore;
  /** Closes the store and opens it again on the same data. Absent: nothing outlives a close. */
  reopen?(): Promise<RecordStore>;
  /** Kills the process that holds the store, and opens it again on the same data. */
  kill?(): Promise<RecordStore>;
  /** Closes the store, also one that was opened again, and removes its data. */
  close(): Promise<void>;
}

/** Thrown by a law that does not concern a store: not a failure, but never passed over in silence either. */
export class DoesNotConcern extends Error {
  override readonly name = 'DoesNotConcern';
}

/** Throws if the store breaks the law. */
export type Law = (opened: OpenedStore, effort: Effort) => Promise<void>;

export interface Effort {
  /** How many random histories are tried. */
  readonly histories: number;
}
