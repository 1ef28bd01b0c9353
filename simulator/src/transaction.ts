import {
  type NextRecord,
  type OperationId,
  type RecordStore,
  type Revision,
  StoreError,
  type StoreTraits,
  type SwapResult,
} from 'onceward';
import type { Life } from './life.ts';
import type { Network } from './network.ts';
import type { StorePlan } from './plan.ts';
import { copyOf, type RecordTable, refuseTooLarge } from './record-table.ts';
import type { RowLocks } from './row-locks.ts';

export interface DatabaseParts {
  readonly life: Life;
  readonly plan: StorePlan;
  readonly table: RecordTable;
  readonly locks: RowLocks;
  readonly network: Network;
}

interface Staged {
  readonly id: OperationId;
  readonly revision: Revision;
  readonly next: NextRecord | null;
}

/** How long the database takes to notice that a client is gone. */
const NOTICED_AFTER_MS = 200;
const DROPPED_AFTER_MS = 2_800;
/** The driver's own patience; the engine leaves a wait for another transaction to it. */
const STATEMENT_TIMEOUT_MS = 15_000;

/** One transaction of the simulated database: staged records and staged effects, applied in one commit or never. */
export class Transaction {
  readonly #parts: DatabaseParts;
  readonly #staged = new Map<string, Staged>();
  readonly #effects: (() => void)[] = [];
  #open = true;

  constructor(parts: DatabaseParts) {
    this.#parts = parts;
    parts.network.whenGone(parts.life, NOTICED_AFTER_MS, () => this.#end());
  }

  /** Something the effect wrote to the same database. */
  stage(effect: () => void): void {
    this.#effects.push(effect);
  }

  rollBack(): void {
    const { network, life } = this.#parts;
    network.send(life, () => this.#end());
  }

  commit(): Promise<void> {
    const { network, life, table } = this.#parts;
    const committed = network.boundedCall<void>(life, STATEMENT_TIMEOUT_MS, (reply, fail) => {
      if (!this.#open) {
        fail(gone());
        return;
      }
      for (const { id, revision, next } of this.#staged.values()) {
        table.put(life, id, revision, next);
      }
      for (const effect of this.#effects) effect();
      this.#end();
      reply(undefined);
    });
    // Should the commit never arrive, the database ends the transaction of a connection that is gone.
    committed.catch(() => network.later(DROPPED_AFTER_MS, () => this.#end()));
    return committed;
  }

  records(traits: StoreTraits): RecordStore {
    return {
      traits,
      read: (id) => this.#read(id),
      swap: (id, expected, next) => this.#swap(traits, id, expected, next),
      scan: () => {
        throw new Error('nobody scans within a transaction');
      },
      count: () => Promise.reject(new Error('nobody counts within a transaction')),
      close: async () => {},
    };
  }

  #read(id: OperationId) {
    const { network, life } = this.#parts;
    return network.call<ReturnType<typeof copyOf>>(life, (reply) => reply(this.#see(id)));
  }

  #swap(
    traits: StoreTraits,
    id: OperationId,
    expected: Revision | null,
    next: NextRecord | null,
  ): Promise<SwapResult> {
    const { network, life, table, locks } = this.#parts;
    const tooLarge = refuseTooLarge(next, traits);
    if (tooLarge !== null) return Promise.reject(tooLarge);
    return network.boundedCall<SwapResult>(life, STATEMENT_TIMEOUT_MS, (reply, fail) => {
      locks.whenFree(id, this, () => {
        if (!this.#open) {
          fail(gone());
          return;
        }
        const current = this.#see(id);
        if ((current?.revision ?? null) !== expected) {
          reply({ won: false, current });
          return;
        }
        locks.hold(id, this);
        const revision = table.mintRevision();
        // Each write of a row is kept, so that a record's life can be followed through the commit.
        this.#staged.set(`${id.scope} ${id.key} ${revision}`, { id, revision, next });
        reply({ won: true, revision });
      });
    });
  }

  #see(id: OperationId): ReturnType<typeof copyOf> {
    let seen = copyOf(this.#parts.table.get(id));
    for (const { id: staged, revision, next } of this.#staged.values()) {
      if (staged.scope !== id.scope || staged.key !== id.key) continue;
      seen = next === null ? null : { revision, bytes: next.bytes };
    }
    return seen;
  }

  #end(): void {
    this.#open = false;
    this.#staged.clear();
    this.#parts.locks.releaseAll(this);
  }
}

function gone(): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', 'the transaction has been rolled back', {
    applied: 'no',
  });
}
