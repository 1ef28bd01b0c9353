/**
 * Where an outbox keeps what it must not forget: a sorted map from text to small JSON objects, with one
 * atomic verb. Several tabs may have the same storage open; the outbox never assumes that it is alone.
 */
export interface OutboxStorage {
  /** All of them as they stood at one moment, in the order asked for. */
  read(keys: readonly string[]): Promise<readonly (Entry | undefined)[]>;

  /** Keys that begin with `prefix` and come after `after`, in order of UTF-16 code units. */
  range(query: RangeQuery): Promise<readonly RangedEntry[]>;

  count(prefix: string): Promise<number>;

  /**
   * Makes all of the changes or none, and answers `true` only when they would survive the end of the process
   * (and, where the platform can promise it, a cut of power). `false`: something stored was not as expected,
   * nothing was changed. A rejection may mean either: the outbox then reads again. So reads
   * never show a change that is not durable, and reject where the storage cannot tell.
   */
  swap(changes: readonly Change[]): Promise<boolean>;

  close(): Promise<void>;
}

/** What is stored under one key. The version is chosen by the outbox and rises with every change. */
export interface Entry {
  readonly version: number;
}

export interface RangeQuery {
  readonly prefix: string;
  readonly after?: string;
  readonly limit: number;
}

export interface RangedEntry {
  readonly key: string;
  readonly entry: Entry;
}

export interface Change {
  readonly key: string;
  /** The version that must be stored now; `null`: nothing may be; left out: whatever there is. */
  readonly expected?: number | null;
  /** `null` removes the key. */
  readonly next: Entry | null;
}

/** Whether a change may be made over what is stored. The same rule for every storage. */
export function meetsExpectation(current: Entry | undefined, change: Change): boolean {
  return change.expected === undefined || (current?.version ?? null) === change.expected;
}
