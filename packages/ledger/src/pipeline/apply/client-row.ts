/** What is known of one client in one scope. */
export type ClientRow = {
  /** The last committed sequence, a u64 in decimal. */
  readonly sequence: string;
  /** The log time of its last write. */
  readonly last_seen: number;
};
