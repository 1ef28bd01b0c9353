import type { EngineEvent, OperationId } from 'onceward';

/** Events of one operation at most, in its usual course. */
const EVENTS_EACH = 4;

/** Which operations this process touched last: stores have no order to ask for. */
export class RecentIds {
  readonly #most: number;
  /** A ring: each event costs one place, and duplicates are dropped on reading. */
  readonly #ring: OperationId[] = [];
  #next = 0;

  constructor(most: number) {
    this.#most = most;
  }

  readonly note = (event: EngineEvent): void => {
    if (!('id' in event) || event.type === 'replayed') return;
    this.#ring[this.#next] = event.id;
    this.#next = (this.#next + 1) % (this.#most * EVENTS_EACH);
  };

  /** The latest first. */
  list(): OperationId[] {
    const latest = [
      ...this.#ring.slice(0, this.#next).reverse(),
      ...this.#ring.slice(this.#next).reverse(),
    ];
    const ids = new Map<string, OperationId>();
    for (const id of latest) {
      const name = `${id.scope}\0${id.key}`;
      if (!ids.has(name)) ids.set(name, id);
      if (ids.size === this.#most) break;
    }
    return [...ids.values()];
  }
}
