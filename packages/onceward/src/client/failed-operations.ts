import type { ClientWorld } from './client-world.ts';
import { type FailedOperation, layout, type Step } from './operation.ts';
import { forgetKeys, type OperationBook, pointTo } from './operation-book.ts';
import type { Change } from './outbox-storage.ts';
import { revive } from './transition.ts';

/** Operations that ended without success, kept with their keys and reasons until someone decides. */
export class FailedOperations {
  readonly #book: OperationBook;
  readonly #world: ClientWorld;
  readonly #changed: (operation: { id: string; lane: string }) => void;

  constructor(
    book: OperationBook,
    world: ClientWorld,
    changed: (operation: { id: string; lane: string }) => void,
  ) {
    this.#book = book;
    this.#world = world;
    this.#changed = changed;
  }

  list(): AsyncIterable<FailedOperation> {
    return this.#book.all<FailedOperation>(layout.failed);
  }

  /**
   * Puts it back in its lane, at its old place. What may have happened keeps its key; what was refused gets a
   * new one. `false`: there is no such failed operation.
   */
  async retry(id: string): Promise<boolean> {
    const failed = await this.#book.failed(id);
    if (failed === null) return false;
    const next = { ...revive(failed, this.#world), version: failed.version + 1 };
    const changes: Change[] = [
      { key: layout.failed + id, expected: failed.version, next: null },
      { key: layout.waiting + id, expected: null, next },
      ...forgetKeys(keysOf(failed)),
      ...keysOf(next)
        .slice(0, 1)
        .map((key) => pointTo(id, key, next.createdAt)),
    ];
    const won = await this.#book.swap(changes);
    if (won) this.#changed(failed);
    return won;
  }

  /** Forgets it for good, its payload included. */
  async discard(id: string): Promise<boolean> {
    const failed = await this.#book.failed(id);
    if (failed === null) return false;
    const won = await this.#book.swap([
      { key: layout.failed + id, expected: failed.version, next: null },
      ...forgetKeys(keysOf(failed)),
    ]);
    if (won) this.#changed(failed);
    return won;
  }

  /** Takes in a failed operation from elsewhere. `false`: it is here already, failed, waiting or done. */
  async add(operation: FailedOperation): Promise<boolean> {
    const [key = ''] = keysOf(operation);
    if ((await this.#book.findByKey(key)) !== null) return false;
    if ((await this.#book.find(operation.id)) !== null) return false;
    const won = await this.#book.swap([
      { key: layout.failed + operation.id, expected: null, next: operation },
      pointTo(operation.id, key, operation.createdAt),
    ]);
    if (won) this.#changed(operation);
    return won;
  }
}

function keysOf(operation: { readonly steps: readonly Step[] }): string[] {
  return operation.steps.map((step) => step.key);
}
