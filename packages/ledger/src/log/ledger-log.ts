/** One stored entry: `text` is what `encodeEntry` gave. */
export interface LogRecord {
  readonly index: number;
  readonly term: number;
  readonly text: string;
}

/**
 * Not appended: an entry of a higher term is there, or the index is not the next one. Nothing was written, and `term`
 * is the highest that the log knows.
 */
export type AppendResult =
  | { readonly appended: true }
  | { readonly appended: false; readonly term: number };

/**
 * The truth of the ledger: entries in one order, each durable before it is acknowledged. Homes: the embedded
 * segment log, and engines that replicate by themselves.
 *
 * Appends may be pipelined: the next may be called before the last has resolved, and they take effect in order.
 * If one fails, none behind it is appended.
 */
export interface LedgerLog {
  /** The last index that is durable, as found at opening or through appends; 0 for a log without entries. */
  readonly lastIndex: number;
  /** The first index that can still be read. */
  readonly firstIndex: number;
  readonly lastTerm: number;
  /** The longest text an entry may have. Batches are cut so that they stay below it. */
  readonly maxEntryLength: number;

  /**
   * Appends at `record.index`, if that is one more than the last, in a term that is not lower. A rejection
   * (`StoreError`) leaves the outcome unknown unless it says `applied: 'no'`; reading that index settles it.
   */
  append(record: LogRecord): Promise<AppendResult>;

  /** The entries from an index on, as far as they are durable now. */
  read(from: number): AsyncIterable<LogRecord>;

  /** Forgets entries up to an index, or fewer: what is convenient. */
  trim(through: number): Promise<void>;

  /** How much disk the entries take that are kept. */
  readonly byteLength: number;

  close(): Promise<void>;
}
