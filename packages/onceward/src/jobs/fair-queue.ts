/** A queue for each tenant, served in turn. */
export class FairQueue<T> {
  /** The tenant whose turn is next comes first. None of the queues is empty. */
  readonly #queues = new Map<string, T[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  has(tenant: string): boolean {
    return this.#queues.has(tenant);
  }

  push(tenant: string, item: T): void {
    this.#size += 1;
    const queue = this.#queues.get(tenant);
    if (queue === undefined) this.#queues.set(tenant, [item]);
    else queue.push(item);
  }

  /** The oldest of the first tenant in turn that may have one. */
  next(mayHave: (tenant: string) => boolean): T | undefined {
    for (const [tenant, queue] of this.#queues) {
      if (!mayHave(tenant)) continue;
      const item = queue.shift();
      this.#size -= 1;
      this.#queues.delete(tenant);
      if (queue.length > 0) this.#queues.set(tenant, queue);
      return item;
    }
    return undefined;
  }
}
