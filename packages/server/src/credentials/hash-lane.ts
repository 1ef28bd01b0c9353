/** One slow hash at a time: each takes one of the four threads that also write files, and 16 MiB. */
const WAITING_AT_MOST = 15;
const WAITING_OF_ONE_KEY = 2;

/**
 * Lets slow hashes through one by one. No key may have more than two of them waiting, so that guesses at one key do not
 * keep the bearers of others out.
 */
export class HashLane {
  readonly #waiting: (() => void)[] = [];
  readonly #ofKey = new Map<string, number>();
  #busy = false;

  /** `'busy'`: there is no room to wait in. */
  async run<T>(apiKey: string, work: () => Promise<T>): Promise<T | 'busy'> {
    const held = this.#ofKey.get(apiKey) ?? 0;
    if (held >= WAITING_OF_ONE_KEY || this.#waiting.length >= WAITING_AT_MOST) return 'busy';
    this.#ofKey.set(apiKey, held + 1);
    try {
      if (this.#busy) await new Promise<void>((resolve) => this.#waiting.push(resolve));
      this.#busy = true;
      return await work();
    } finally {
      this.#leave(apiKey);
    }
  }

  /** The lane is handed to the next waiter, so that no newcomer gets in between. */
  #leave(apiKey: string): void {
    const held = (this.#ofKey.get(apiKey) ?? 1) - 1;
    if (held === 0) this.#ofKey.delete(apiKey);
    else this.#ofKey.set(apiKey, held);
    const next = this.#waiting.shift();
    if (next === undefined) this.#busy = false;
    else next();
  }
}
