/**
 * A place in a segment that cannot be read as it was written. It is reported once at every opening for as long as
 * the segment lives.
 */
export interface Damage {
  readonly file: string;
  readonly offset: number;
  readonly byteLength: number;
  /** What was found, in words for an operator. */
  readonly finding: string;
  /** The first entry concerned. */
  readonly sequence: number;
  /** How many entries are lost or in doubt; 0 when everything could be recovered, `null` when that is unknown. */
  readonly entries: number | null;
}

/** An entry whose checksum is wrong but whose bounds are known. What can be made of it is the user's to say. */
export interface DamagedEntry extends Damage {
  readonly segment: number;
  readonly payload: Buffer;
}
