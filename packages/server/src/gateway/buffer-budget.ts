/** While others wait, all shares are checked so often. */
const CHECK_EVERY_MS = 250;
/** A share without progress for so many checks is evicted. Checks, not time: this process may stall too. */
const STALLED_CHECKS = 4;

interface Waiting {
  readonly share: Share;
  readonly bytes: number;
  granted(): void;
}

/**
 * How many bytes of bodies may be held at once. Room is taken in steps, as bytes come, so that an announced body that
 * never arrives holds little. A body without room waits in line. The first in line may go over the total:
 * otherwise everybody could hold half a body and wait for the rest. So at most one body more than the total is held.
 */
export class BufferBudget {
  readonly #total: number;
  #held = 0;
  #favoured: Share | null = null;
  readonly #shares = new Set<Share>();
  readonly #line: Waiting[] = [];
  #timer: NodeJS.Timeout | null = null;

  constructor(bytes: number) {
    this.#total = bytes;
  }

  get held(): number {
    return this.#held;
  }

  get waiting(): number {
    return this.#line.length;
  }

  open(): Share {
    return new Share(this);
  }

  /** For `Share` alone: takes so many bytes if it may have them now. */
  tryGrow(share: Share, bytes: number): boolean {
    if (this.#line.length > 0 && share !== this.#favoured) return false;
    if (this.#held + bytes > this.#total) {
      this.#favoured ??= share;
      if (share !== this.#favoured) return false;
    }
    this.#take(share, bytes);
    return true;
  }

  /** For `Share` alone: waits in line. */
  growLater(share: Share, bytes: number, granted: () => void): void {
    this.#line.push({ share, bytes, granted });
    this.#timer ??= setInterval(() => this.#askStalled(), CHECK_EVERY_MS).unref();
  }

  /** For `Share` alone. */
  giveBack(share: Share, bytes: number, isLast: boolean): void {
    this.#held -= bytes;
    if (isLast) {
      this.#shares.delete(share);
      if (this.#favoured === share) this.#favoured = null;
      const place = this.#line.findIndex((waiting) => waiting.share === share);
      if (place !== -1) this.#line.splice(place, 1);
    }
    this.#serveLine();
  }

  #take(share: Share, bytes: number): void {
    this.#held += bytes;
    this.#shares.add(share);
    share.add(bytes);
  }

  #serveLine(): void {
    for (let first = this.#line[0]; first !== undefined; first = this.#line[0]) {
      if (this.#held + first.bytes > this.#total) {
        if (this.#favoured !== null) return;
        this.#favoured = first.share;
      }
      this.#line.shift();
      this.#take(first.share, first.bytes);
      first.granted();
    }
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  #askStalled(): void {
    for (const share of this.#shares) {
      if (this.#line.length === 0) return;
      share.idleChecks += 1;
      if (share.idleChecks > STALLED_CHECKS) share.giveUp?.();
    }
  }
}

/** A part of the budget. Its owner releases it; releasing twice is releasing once. */
export class Share {
  readonly #budget: BufferBudget;
  #held = 0;
  #open = true;
  /** For the budget: checks since its bytes last moved. */
  idleChecks = 0;
  /** What to do when others wait and nothing has moved for a while. `null`: that is not its owner's fault. */
  giveUp: (() => void) | null = null;

  constructor(budget: BufferBudget) {
    this.#budget = budget;
  }

  get held(): number {
    return this.#held;
  }

  /** Takes so many bytes more, if there is room. */
  tryGrow(bytes: number): boolean {
    return this.#open && this.#budget.tryGrow(this, bytes);
  }

  /** Waits in line for them. If it is released first, `granted` is never called. */
  growLater(bytes: number, granted: () => void): void {
    if (this.#open) this.#budget.growLater(this, bytes, granted);
  }

  /** Gives back what turned out not to be needed. */
  shrinkTo(bytes: number): void {
    if (bytes >= this.#held) return;
    const rest = this.#held - bytes;
    this.#held = bytes;
    this.#budget.giveBack(this, rest, false);
  }

  release(): void {
    if (!this.#open) return;
    this.#open = false;
    this.giveUp = null;
    const rest = this.#held;
    this.#held = 0;
    this.#budget.giveBack(this, rest, true);
  }

  /** Its bytes have moved. */
  touch(): void {
    this.idleChecks = 0;
  }

  /** For the budget alone. */
  add(bytes: number): void {
    this.#held += bytes;
    this.idleChecks = 0;
  }
}
