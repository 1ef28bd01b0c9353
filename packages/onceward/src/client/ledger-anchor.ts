import { hashBlockHeader, type LedgerHeader } from './verify-proof.ts';

/** A block that the client has seen, or was told of by somebody it trusts. */
export interface LedgerAnchor {
  readonly height: number;
  readonly hash: string;
}

/** Asked for one after the other, so a client that has been away for longer needs a newer anchor. */
const FARTHEST = 10_000;
/** Answers come in another order than their blocks were made. */
const REMEMBERED = 1_000;

/**
 * Ties every header that is shown to one that the client already has, through the headers between them. So one
 * client is never shown two histories. Without an anchor the very first header is believed.
 */
export class HeaderChain {
  readonly #fetchHeader: (height: number) => Promise<LedgerHeader>;
  readonly #hashes = new Map<number, string>();
  /** Headers between, until they have led somewhere: a call that fails does not cost those before it. */
  readonly #between = new Map<number, LedgerHeader>();
  #tip: LedgerAnchor | null;
  #working: Promise<unknown> = Promise.resolve();

  constructor(anchor: LedgerAnchor | null, fetchHeader: (height: number) => Promise<LedgerHeader>) {
    this.#tip = anchor;
    this.#fetchHeader = fetchHeader;
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
      return `block ${height} is too far from block ${tip.height}, the last that was checked`;
    }
    const [from, to] = height > tip.height ? [tip, { height, hash }] : [{ height, hash }, tip];
    const isLinked = await this.#isLinked(from, to, height > tip.height ? header : null);
    this.#between.clear();
    return isLinked ? this.#remember(height, hash) : 'the header is not of this chain';
  }

  /** Whether each header names the one before, from a block up to another. */
  async #isLinked(from: LedgerAnchor, to: LedgerAnchor, last: LedgerHeader | null) {
    let before = from.hash;
    for (let height = from.height + 1; height <= to.height; height += 1) {
      const header = height === to.height && last ? last : await this.#headerAt(height);
      if (header.height !== height || header.previous !== before) return false;
      before = hashBlockHeader(header);
    }
    return before === to.hash;
  }

  async #headerAt(height: number): Promise<LedgerHeader> {
    const header = this.#between.get(height) ?? (await this.#fetchHeader(height));
    this.#between.set(height, header);
    return header;
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
