import type { Attempt } from '../engine/operation.ts';
import type { Revision } from '../engine/record.ts';

/** What a handler finds on its request: `req.idempotency`. */
export class IdempotencyContext {
  /** The key in the form under which equal keys are equal. */
  readonly key: string;
  /** A handler that runs is never a replay; hooks that run on every answer may read `true` here. */
  readonly replayed: boolean;
  readonly #attempt: Attempt | null;
  readonly #transaction: unknown;
  #doubtful = false;
  #released = false;

  constructor(key: string, attempt: Attempt | null, transaction?: unknown) {
    this.key = key;
    this.replayed = attempt === null;
    this.#attempt = attempt;
    this.#transaction = transaction;
  }

  /** 1 for the first run, more when an earlier attempt was lost. 0 on a replay. */
  get attempt(): number {
    return this.#attempt?.number ?? 0;
  }

  /** Rises with every attempt. Give it to anything that can refuse a lower one. */
  get fence(): Revision {
    return this.#attempt?.fence ?? 0;
  }

  /** Aborted when another attempt has taken over. It does not follow the client: leaving undoes nothing. */
  get signal(): AbortSignal {
    return this.#running().signal;
  }

  /** The same for every attempt of this operation, and for no other: the key to send downstream. */
  get downstreamKey(): string {
    return this.#running().downstreamKey;
  }

  /** What `transact` opened, where the effect is a transaction of the store. */
  get transaction(): unknown {
    return this.#transaction;
  }

  /** Runs `work` unless an earlier attempt finished a step of this name; then gives its result. */
  step<T>(name: string, work: () => Promise<T>): Promise<T> {
    return this.#running().step(name, work);
  }

  /** Declares the outcome unknown, whatever is answered: the record goes in doubt. */
  doubt(): void {
    this.#doubtful = true;
  }

  /** Declares that nothing worth keeping happened, whatever is answered: the key is released. */
  release(): void {
    this.#released = true;
  }

  get isReleased(): boolean {
    return this.#released;
  }

  get isDoubtful(): boolean {
    return this.#doubtful;
  }

  #running(): Attempt {
    if (this.#attempt === null) throw new Error('a replay has no attempt of its own');
    return this.#attempt;
  }
}
