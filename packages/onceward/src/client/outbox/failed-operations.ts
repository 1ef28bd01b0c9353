import type { Change } from '../storages/outbox-storage.ts';
import { type FailedOperation, layout } from './operation.ts';
import { forgetKeys, pointTo } from './operation-book.ts';
import type { OutboxCore } from './runner.ts';
import { revive } from './transition.ts';

/** Operations that ended without success, kept with their keys and reasons until someone decides. */
export class FailedOperations {
  /** For what is done with them elsewhere, so that a page pays only for what it uses. */
  readonly core: OutboxCore;

  constructor(core: OutboxCore) {
    this.core = core;
  }

  /** Those of the current owner. */
  list(): AsyncIterable<FailedOperation> {
    return this.core.book.all<FailedOperation>(layout.failed, this.core.owner());
  }

  /**
   * Puts it back in its lane, at its old place. What may have happened keeps its key; what was refused gets a
   * new one. `false`: there is no such failed operation.
   */
  retry(id: string): Promise<boolean> {
    return this.#take(id, (failed) => {
      const next = { ...revive(failed, this.core), version: failed.version + 1 };
      return [{ key: layout.waiting + id, next }, pointTo(next)];
    });
  }

  /** Forgets it for good, its payload included. */
  discard(id: string): Promise<boolean> {
    return this.#take(id, () => []);
  }

  async #take(id: string, more: (failed: FailedOperation) => Change[]): Promise<boolean> {
    const failed = await this.core.book.failed(id);
    if (failed === null) return false;
    return this.swap(id, [
      { key: layout.failed + id, expected: failed.version, next: null },
      ...forgetKeys(failed),
      ...more(failed),
    ]);
  }

  /** Makes a change, and notifies the listeners. */
  async swap(id: string, changes: readonly Change[]): Promise<boolean> {
    const won = await this.core.book.swap(changes);
    if (won) this.core.changed(id);
    return won;
  }
}
