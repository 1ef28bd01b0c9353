/** What the engine needs of the machine besides time and chance. Node's is `nodePlatform()`. */
export interface Platform {
  /** SHA-256 of the text, in hex. */
  digest(text: string): string;
  /** Codecs that can read what was packed; the first one packs. */
  readonly codecs: readonly OutcomeCodec[];
}

export interface OutcomeCodec {
  /** Written into the record. From 1 to 255, never given a second meaning. */
  readonly tag: number;
  pack(bytes: Uint8Array): Promise<Uint8Array>;
  /** Must stop, and reject, as soon as the output is longer than `size`. */
  unpack(bytes: Uint8Array, size: number): Promise<Uint8Array>;
}
