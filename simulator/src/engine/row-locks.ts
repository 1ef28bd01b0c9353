import type { OperationId } from 'onceward';

/** Rows that a transaction holds until it ends; everybody else who wants to write them waits in line. */
export class RowLocks {
  readonly #holders = new Map<string, object>();
  readonly #lines = new Map<string, (() => void)[]>();

  /** Runs `turn` when the row is free, or already held by `holder`. */
  whenFree(id: OperationId, holder: object | null, turn: () => void): void {
    const name = `${id.scope} ${id.key}`;
    const held = this.#holders.get(name);
    if (held === undefined || held === holder) {
      turn();
      return;
    }
    const line = this.#lines.get(name) ?? [];
    line.push(() => this.whenFree(id, holder, turn));
    this.#lines.set(name, line);
  }

  isHeld(id: OperationId): boolean {
    return this.#holders.has(`${id.scope} ${id.key}`);
  }

  hold(id: OperationId, holder: object): void {
    this.#holders.set(`${id.scope} ${id.key}`, holder);
  }

  releaseAll(holder: object): void {
    for (const [name, held] of [...this.#holders]) {
      if (held !== holder) continue;
      this.#holders.delete(name);
      const line = this.#lines.get(name) ?? [];
      this.#lines.delete(name);
      for (const turn of line) turn();
    }
  }
}
