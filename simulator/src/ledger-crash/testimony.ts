/** What the ledger had acknowledged to its writers, as of some moment. */
export interface Said {
  readonly paid: ReadonlySet<number>;
  /** Sequences. */
  readonly wrote: ReadonlySet<string>;
}

/** Each life begins with payments that earlier lives have made, or were about to. */
const ASKED_AGAIN = 100;

/** Keeps what writers say where no crash of theirs can reach it. */
export class Testimony implements Said {
  readonly paid = new Set<number>();
  readonly wrote = new Set<string>();
  #highest = 0;
  #opened = false;

  get opened(): boolean {
    return this.#opened;
  }

  /** The payment that the next life begins with. */
  get resumeAt(): number {
    return Math.max(0, this.#highest - ASKED_AGAIN);
  }

  beginLife(): void {
    this.#opened = false;
  }

  /** A line of a writer: `open`, `paid N`, `known N` (its key was already used), or `wrote SEQUENCE`. */
  hear(line: string): void {
    const [what, which = ''] = line.split(' ');
    if (what === 'open') this.#opened = true;
    else if (what === 'wrote') this.wrote.add(which);
    else {
      this.paid.add(Number(which));
      this.#highest = Math.max(this.#highest, Number(which));
    }
  }

  soFar(): Said {
    return { paid: new Set(this.paid), wrote: new Set(this.wrote) };
  }
}
