interface Waiting {
  readonly wakes: Set<() => void>;
  /** Settles when changes of the key will be notified. */
  readonly listening: Promise<void>;
}

/** Waiters for changes of keys. A wake-up is a hint: the waiter reads the record itself. */
export class Waiters {
  readonly #byKey = new Map<string, Waiting>();

  /** Settles once changes of the key will be notified; `listen` is called for the first to wait. */
  add(key: string, wake: () => void, listen: () => Promise<void>): Promise<void> {
    let waiting = this.#byKey.get(key);
    if (waiting === undefined) {
      waiting = { wakes: new Set(), listening: listen() };
      this.#byKey.set(key, waiting);
    }
    waiting.wakes.add(wake);
    return waiting.listening;
  }

  /** True when the key has no waiter any more. */
  remove(key: string, wake: () => void): boolean {
    const waiting = this.#byKey.get(key);
    if (waiting === undefined || !waiting.wakes.delete(wake) || waiting.wakes.size > 0)
      return false;
    this.#byKey.delete(key);
    return true;
  }

  wake(key: string): void {
    for (const wake of this.#byKey.get(key)?.wakes ?? []) wake();
  }

  wakeAll(): void {
    for (const key of this.#byKey.keys()) this.wake(key);
  }
}
