import type { EngineEvent } from 'onceward';

export type Listener = (event: EngineEvent) => void;

/** Passes the engine's events on to the listeners. */
export class EventHub {
  readonly #listeners = new Set<Listener>();
  readonly #onFault: (error: unknown) => void;

  constructor(onFault: (error: unknown) => void) {
    this.#onFault = onFault;
  }

  readonly emit = (event: EngineEvent): void => {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (error) {
        // A listener must never change what happens.
        this.#onFault(error);
      }
    }
  };

  /** Returns the function that ends it. */
  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
