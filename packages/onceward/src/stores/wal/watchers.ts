import type { OperationId } from '../../engine/record.ts';

/** Those who wait for a record to change, in this process. */
export class Watchers {
  readonly #byName = new Map<string, Set<() => void>>();

  /** Resolves at the next change, or when the signal says so. */
  watch(id: OperationId, signal: AbortSignal): Promise<void> {
    const name = nameOf(id);
    return new Promise((resolve) => {
      const waiting = this.#byName.get(name) ?? new Set();
      this.#byName.set(name, waiting);
      const settle = () => {
        signal.removeEventListener('abort', settle);
        waiting.delete(settle);
        if (waiting.size === 0) this.#byName.delete(name);
        resolve();
      };
      waiting.add(settle);
      signal.addEventListener('abort', settle, { once: true });
    });
  }

  /** `null` wakes all. */
  wake(id: OperationId | null): void {
    if (this.#byName.size === 0) return;
    const names = id ? [nameOf(id)] : [...this.#byName.keys()];
    for (const name of names) this.#settle(name);
  }

  #settle(name: string): void {
    for (const settle of [...(this.#byName.get(name) ?? [])]) settle();
  }
}

/** The length keeps ("a", "b:c") and ("a:b", "c") apart. */
function nameOf({ scope, key }: OperationId): string {
  return `${scope.length}:${scope}${key}`;
}
