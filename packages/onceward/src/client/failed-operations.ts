import type { ClientWorld } from './client-world.ts';
import { type FailedOperation, layout } from './operation.ts';
import { forgetKeys, type OperationBook, pointTo } from './operation-book.ts';
import type { Change } from './outbox-storage.ts';
import { revive } from './transition.ts';

/** Operations that ended without success, kept with their keys and reasons until someone decides. */
export class FailedOperations {
  /** For what is done with them elsewhere, so that a page pays only for what it uses. */
  readonly book: OperationBook;
  readonly #world: ClientWorld;
  readonly #changed: (operation: { id: string; lane: string }) => void;

  constructor(
    book: OperationBook,
    world: ClientWorld,
    changed: (operation: { id: string; lane: string }) => void,
  ) {
    this.book = book;
    this.#world = world;
    this.#changed = changed;
  }

  list(): AsyncIterable<FailedOperation> {
    return this.book.all<FailedOperation>(layout.failed);
  }

  /**
   * Puts it back in its lane, at its old place. What may have happened keeps its key; what was refused gets a
   * new one. `false`: there is no such failed operation.
   */
  retry(id: string): Promise<boolean> {
    return this.#take(id, (failed) => {
      const next = { ...revive(failed, this.#world), version: failed.version + 1 };
      return [{ key: layout.waiting + id, next }, pointTo(next)];
    });
  }

  /** Forgets it for good, its payload included. */
  discard(id: string): Promise<boolean> {
    return this.#take(id, () => []);
  }

  async #take(id: string, more: (failed: FailedOperation) => Change[]): Promise<boolean> {
    const failed = await this.book.failed(id);
    if (failed === null) return false;
    return this.swap(failed, [
      { key: layout.failed + id, expected: failed.version, next: null },
      ...forgetKeys(failed),
      ...more(failed),
    ]);
  }

  /** Makes a change, and tells everyone who watches the operation. */
  async swap(operation: FailedOperation, changes: readonly Change[]): Promise<boolean> {
    const won = await this.book.swap(changes);
    if (won) this.#changed(operation);
    return won;
  }
}
