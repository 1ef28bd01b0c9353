/** What a single request may hold. Everything over a limit is refused with its code before anything is stored. */
export const LIMITS = {
  /** Amounts are below 2^250: any sum of one batch stays far from the bounds of a balance. */
  amountBits: 250,
  /** The longest way to write such an amount in decimal. */
  amountDigits: 76,
  /** As many as an account's record has room for. */
  assetLength: 24,
  categoryLength: 40,
  journalEntries: 1_000,
  operations: 1_000,
  typeLength: 64,
  /** In UTF-8 bytes. */
  keyBytes: 1_024,
  valueBytes: 64 * 1_024,
  nameLength: 200,
  clientIdLength: 200,
  actorLength: 200,
  /** All operations of one request together, as text. */
  requestBytes: 1_024 * 1_024,
  /** Requests that are being worked on at once. */
  inFlight: 65_536,
  /** And how long their texts may be together. */
  inFlightLength: 256 * 1_024 * 1_024,
} as const;
