/**
 * Goes round and round through all that a store holds, a share at a time: where it stopped, it goes on. It ends early
 * when it has come to the end of a round, so that a small store is gone through as a whole each time.
 */
export class Rounds<Page> {
  readonly #begin: () => AsyncGenerator<Page>;
  readonly #sizeOf: (page: Page) => number;
  readonly #share: number;
  #round: AsyncGenerator<Page> | null = null;

  constructor(begin: () => AsyncGenerator<Page>, sizeOf: (page: Page) => number, share: number) {
    this.#begin = begin;
    this.#sizeOf = sizeOf;
    this.#share = share;
  }

  async *nextShare(): AsyncGenerator<Page> {
    let seen = 0;
    while (seen < this.#share) {
      this.#round ??= this.#begin();
      const page = await this.#nextOf(this.#round);
      if (page === null) return;
      seen += this.#sizeOf(page);
      yield page;
    }
  }

  async #nextOf(round: AsyncGenerator<Page>): Promise<Page | null> {
    try {
      const next = await round.next();
      if (next.done !== true) return next.value;
    } catch (error) {
      this.#leave(round);
      throw error;
    }
    this.#leave(round);
    return null;
  }

  #leave(round: AsyncGenerator<Page>): void {
    if (this.#round === round) this.#round = null;
  }
}
