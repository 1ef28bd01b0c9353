import type { ServerResponse } from 'node:http';

/**
 * One request and its answer, until the answer is out or the connection is closed, whichever comes first. Node does not
 * say `close` on responses that were queued behind another one when their connection broke, so the connection is
 * watched too.
 */
export class Visit {
  /** `null` where the connection itself has been handed over. */
  readonly response: ServerResponse | null;
  #over = false;
  #acts: (() => void)[] | null = null;

  constructor(response: ServerResponse | null) {
    this.response = response;
  }

  get isOver(): boolean {
    return this.#over;
  }

  /** Calls `act` when it is over; at once if it is over already. */
  whenOver(act: () => void): void {
    if (this.#over) act();
    else if (this.#acts === null) this.#acts = [act];
    else this.#acts.push(act);
  }

  /** Takes that back. */
  forget(act: () => void): void {
    const place = this.#acts?.indexOf(act) ?? -1;
    if (place !== -1) this.#acts?.splice(place, 1);
  }

  end(): void {
    if (this.#over) return;
    this.#over = true;
    const acts = this.#acts;
    this.#acts = null;
    if (acts !== null) for (const act of acts) act();
  }
}
