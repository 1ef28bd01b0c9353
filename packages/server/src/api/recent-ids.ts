import type { EngineEvent, OperationId } from 'onceward';

/** Which operations this process touched last: stores have no order to ask for. */
export class RecentIds {
  readonly #ids = new Map<string, OperationId>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  readonly note = (event: EngineEvent): void => {
    if (!('id' in event) || event.type === 'replayed') return;
    const name = `${event.id.scope}\0${event.id.key}`;
    this.#ids.delete(name);
    this.#ids.set(name, event.id);
    if (this.#ids.size <= this.#most) return;
    for (const oldest of this.#ids.keys()) {
      this.#ids.delete(oldest);
      return;
    }
  };

  /** The latest first. */
  list(): OperationId[] {
    return [...this.#ids.values()].reverse();
  }
}
