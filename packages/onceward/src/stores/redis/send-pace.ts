/** Fewer, and each costs more to send; more, and Redis begins later. */
const EACH_TIME = 32;

/**
 * Lets commands out in small groups. Drivers send at the end of a turn of the event loop: if all went at once, Redis
 * would wait while this process works, and this process while Redis does. In groups, one works on the next group while
 * the other works on the last.
 */
export class SendPace {
  #left = EACH_TIME;
  #waiting: (() => void)[] = [];
  #isPlanned = false;

  /** `null`: now. Otherwise when it is the turn of this one. */
  enter(): Promise<void> | null {
    this.#plan();
    if (this.#left > 0) {
      this.#left -= 1;
      return null;
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Two turns on: in the first the driver sends what it was given. */
  #plan(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => setImmediate(this.#nextGroup));
  }

  readonly #nextGroup = (): void => {
    this.#isPlanned = false;
    const group = this.#waiting.splice(0, EACH_TIME);
    this.#left = EACH_TIME - group.length;
    if (group.length > 0) this.#plan();
    for (const go of group) go();
  };
}
