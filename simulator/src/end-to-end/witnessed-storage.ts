import {
  type Change,
  type DoneOperation,
  type FailedOperation,
  memoryStorage,
  type OutboxStorage,
  type WaitingOperation,
} from 'onceward/client';

type Stored = WaitingOperation | FailedOperation | DoneOperation;

/** Called for every change of an operation, at the moment when it is stored. */
export interface Witness {
  waits(before: WaitingOperation | FailedOperation | null, now: WaitingOperation): void;
  isDone(operation: DoneOperation): void;
  hasFailed(operation: FailedOperation): void;
  isGone(operation: WaitingOperation): void;
}

const PLACE = /^(waiting|failed|done)\/(.*)$/;

/** The storage of a device, and what it holds, for those who judge it. */
export class WitnessedStorage {
  readonly storage: OutboxStorage;
  /** By id. What the user has not discarded is here until it is forgotten for its age. */
  readonly operations = new Map<string, Stored>();
  readonly #witness: Witness;

  constructor(witness: Witness) {
    this.#witness = witness;
    const kept = memoryStorage();
    this.storage = {
      ...kept,
      swap: async (changes) => {
        const won = await kept.swap(changes);
        if (won) this.#note(changes);
        return won;
      },
    };
  }

  #note(changes: readonly Change[]): void {
    const removed = new Set<string>();
    const stored = new Map<string, Stored>();
    for (const { key, next } of changes) {
      const id = PLACE.exec(key)?.[2];
      if (id === undefined) continue;
      if (next === null) removed.add(id);
      else stored.set(id, next as unknown as Stored);
    }
    for (const [id, now] of stored) {
      const before = this.operations.get(id) ?? null;
      this.operations.set(id, now);
      if (now.state === 'done') this.#witness.isDone(now);
      else if (now.state === 'failed') this.#witness.hasFailed(now);
      else this.#witness.waits(before?.state === 'done' ? null : before, now);
    }
    for (const id of removed) {
      if (stored.has(id)) continue;
      const before = this.operations.get(id);
      this.operations.delete(id);
      if (before?.state === 'waiting') this.#witness.isGone(before);
    }
  }
}
