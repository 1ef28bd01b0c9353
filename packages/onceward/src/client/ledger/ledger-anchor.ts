import { hashBlockHeader, type LedgerHeader } from '../verify-proof.ts';

/** A block that the client has seen, or was given by a trusted party. */
export interface LedgerAnchor {
  readonly height: number;
  readonly hash: string;
}

/** So many headers are asked for at once, and so many of them are followed at most: a third of a gigabyte. */
const AT_ONCE = 1_000;
const FARTHEST = 1_000_000;
/** Answers come in another order than their blocks were made. */
const REMEMBERED = 1_000;

/** Headers from a height on, up to so many. */
type FetchHeaders = (from: number, count: number) => Promise<readonly LedgerHeader[]>;

/**
 * Ties every header that is shown to one that the client already has, through the headers between them. So one
 * client is never shown two histories. Without an anchor the first header is trusted.
 */
export class HeaderChain {
  readonly #fetchHeaders: FetchHeaders;
  readonly #hashes = new Map<number, string>();
  #tip: LedgerAnchor | null;
  #working: Promise<unknown> = Promise.resolve();

  constructor(anchor: LedgerAnchor | null, fetchHeaders: FetchHeaders) {
    this.#tip = anchor;
    this.#fetchHeaders = fetchHeaders;
  }

  get tip(): LedgerAnchor | null {
    return this.#tip;
  }

  /** Why a header does not belong to the chain; `null` if it does. One at a time. */
  check(header: LedgerHeader): Promise<string | null> {
    const result = this.#working.then(() => this.#check(header));
    this.#working = result.catch(() => {});
    return result;
  }

  async #check(header: LedgerHeader): Promise<string | null> {
    const hash = hashBlockHeader(header);
    const { height } = header;
    const tip = this.#tip;
    if (tip === null) return this.#remember(height, hash);
    const known = height === tip.height ? tip.hash : this.#hashes.get(height);
    if (known !== undefined) return known === hash ? null : 'the header is not of this chain';
    if (Math.abs(height - tip.height) > FARTHEST) {
      const distance = `block ${height} is too far from block ${tip.height}, the last that was checked`;
      return `${distance}; give the client a newer anchor`;
    }
    const isNewer = height > tip.height;
    const isLinked = isNewer
      ? await this.#isLinked(tip, header)
      : await this.#isReached({ height, hash }, tip);
    return isLinked ? this.#remember(height, hash) : 'the header is not of this chain';
  }

  /** Whether a header follows on a block, through those between. */
  async #isLinked(from: LedgerAnchor, header: LedgerHeader): Promise<boolean> {
    const before = await this.#hashAt(from, header.height - 1);
    return before !== null && before === header.previous;
  }

  /** Whether the block that is known follows on this one. */
  async #isReached(from: LedgerAnchor, tip: LedgerAnchor): Promise<boolean> {
    return (await this.#hashAt(from, tip.height)) === tip.hash;
  }

  /** The hash of a later block, if each header up to it names the one before. */
  async #hashAt(from: LedgerAnchor, height: number): Promise<string | null> {
    let { height: at, hash } = from;
    while (at < height) {
      const headers = await this.#fetchHeaders(at + 1, Math.min(AT_ONCE, height - at));
      if (headers.length === 0) return null;
      for (const header of headers.slice(0, height - at)) {
        if (header.height !== at + 1 || header.previous !== hash) return null;
        at += 1;
        hash = hashBlockHeader(header);
      }
    }
    return hash;
  }

  #remember(height: number, hash: string): null {
    this.#hashes.set(height, hash);
    if (this.#hashes.size > REMEMBERED) {
      this.#hashes.delete(this.#hashes.keys().next().value as number);
    }
    if (height >= (this.#tip?.height ?? 0)) this.#tip = { height, hash };
    return null;
  }
}
