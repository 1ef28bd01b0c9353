import type { Revision } from '../../engine/record.ts';
import type { DurationMs } from '../../engine/units.ts';

/** Enough for five hundred operations; a process that wants more fetches the next while it uses this one. */
export const BLOCK_SIZE = 1_024;

/**
 * How long a block may be drawn from. A forgotten record leaves its revision behind for longer than this plus the
 * time a call may take, so a later claim of the key draws from a block reserved later: revisions of one key
 * rise although claims are minted here and not in Redis.
 */
export const BLOCK_LIFE_MS: DurationMs = 20_000;

interface Block {
  next: Revision;
  readonly end: Revision;
  readonly reservedAt: DurationMs;
}

/** Mints revisions out of blocks that are reserved at the server, so that minting costs no round trip. */
export class RevisionSource {
  readonly #reserve: (count: number) => Promise<Revision>;
  #block: Block = { next: 0, end: 0, reservedAt: 0 };
  #spare: Block | null = null;
  #reserving: Promise<Block> | null = null;

  constructor(reserve: (count: number) => Promise<Revision>) {
    this.#reserve = reserve;
  }

  /** A revision above `seen`; `null` when a block has to be reserved first. */
  take(seen: Revision, now: DurationMs): Revision | null {
    let block = this.#block;
    if (!usable(block, now) && this.#spare !== null) {
      block = this.#block = this.#spare;
      this.#spare = null;
    }
    if (!usable(block, now) || block.next <= seen) return null;
    const left = block.end - block.next;
    if (this.#spare === null && (left < BLOCK_SIZE / 4 || isAging(block, now))) {
      // Fetched ahead. Should it fail, the draw that finds nothing left reports it.
      this.#reserveBlock().then(
        (fresh) => {
          this.#spare = fresh;
        },
        () => {},
      );
    }
    return block.next++;
  }

  /** Reserves a fresh block; the next `take` draws from it. */
  async renew(): Promise<void> {
    this.#block = await this.#reserveBlock();
    this.#spare = null;
  }

  #reserveBlock(): Promise<Block> {
    this.#reserving ??= this.#request().finally(() => {
      this.#reserving = null;
    });
    return this.#reserving;
  }

  async #request(): Promise<Block> {
    // The clock starts before the request: the block is at least as young as it claims to be.
    const reservedAt = performance.now();
    const next = await this.#reserve(BLOCK_SIZE);
    return { next, end: next + BLOCK_SIZE, reservedAt };
  }
}

function usable(block: Block, now: DurationMs): boolean {
  return block.next < block.end && now - block.reservedAt < BLOCK_LIFE_MS;
}

function isAging(block: Block, now: DurationMs): boolean {
  return now - block.reservedAt > BLOCK_LIFE_MS / 2;
}
