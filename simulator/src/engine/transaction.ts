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
import type { Network, Request } from './network.ts';
import type { OneFile } from './one-file.ts';
import type { Silence, StorePlan } from './plan.ts';
import { copyOf, type RecordTable, refuseTooLarge } from './record-table.ts';
import type { RowLocks } from './row-locks.ts';

export interface DatabaseParts {
  readonly life: Life;
  readonly plan: StorePlan;
  readonly table: RecordTable;
  readonly locks: RowLocks;
  readonly network: Network;
  readonly file: OneFile;
}

interface Staged {
  readonly id: OperationId;
  readonly revision: Revision;
  readonly next: NextRecord | null;
}

/** How long the database takes to notice that a client has disconnected. */
const NOTICED_AFTER_MS = 200;
const DROPPED_AFTER_MS = 2_800;
/** For the whole of the work: the engine leaves a wait for another transaction to the caller that opened this one. */
const TRANSACTION_TIMEOUT_MS = 15_000;
/** For COMMIT and ROLLBACK. */
const ENDING_TIMEOUT_MS = 1_000;

/** One transaction of the simulated database: staged records and staged effects, applied in one commit or never. */
export class Transaction {
  readonly #parts: DatabaseParts;
  readonly #staged = new Map<string, Staged>();
  readonly #effects: (() => void)[] = [];
  readonly #silence: Silence | null;
  #statements = 0;
  #open = true;

  constructor(parts: DatabaseParts) {
    this.#parts = parts;
    this.#silence = parts.network.connect(parts.life);
    // A driver raises errors of its own.
    if (this.#silence?.statement === 0) throw new Error('connect ECONNREFUSED');
    parts.network.whenGone(parts.life, NOTICED_AFTER_MS, () => this.#end());
  }

  /** Something the effect wrote to the same database. */
  stage(effect: () => void): void {
    this.#effects.push(effect);
  }

  /** Runs `work` for as long as a transaction may last. Then its connection is ended, and the database rolls back. */
  inTime<T>(work: Promise<T>): Promise<T> {
    return this.#bounded(work, TRANSACTION_TIMEOUT_MS, () => gone('ONCE_ROLLED_BACK'));
  }

  /** Resolves when the database has rolled back, or when its connection has been given up. */
  async rollBack(): Promise<void> {
    const ending = this.#send<void>((reply) => {
      this.#end();
      reply(undefined);
    });
    await this.#bounded(ending, ENDING_TIMEOUT_MS, lost).catch(() => this.#drop());
  }

  async commit(): Promise<void> {
    const { life, table } = this.#parts;
    const committing = this.#send<void>((reply, fail) => {
      if (!this.#open) {
        fail(gone('ONCE_STORE_UNAVAILABLE'));
        return;
      }
      for (const { id, revision, next } of this.#staged.values()) {
        table.put(life, id, revision, next);
      }
      for (const effect of this.#effects) effect();
      this.#end();
      reply(undefined);
    });
    try {
      await this.#bounded(committing, ENDING_TIMEOUT_MS, lost);
    } catch (error) {
      this.#drop();
      throw error;
    }
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
    return this.#send<ReturnType<typeof copyOf>>((reply) => reply(this.#see(id)));
  }

  #swap(
    traits: StoreTraits,
    id: OperationId,
    expected: Revision | null,
    next: NextRecord | null,
  ): Promise<SwapResult> {
    const { table, locks } = this.#parts;
    const tooLarge = refuseTooLarge(next, traits);
    if (tooLarge !== null) return Promise.reject(tooLarge);
    return this.#send<SwapResult>((reply, fail) => {
      locks.whenFree(id, this, () => {
        if (!this.#open) {
          fail(gone('ONCE_STORE_UNAVAILABLE'));
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

  #send<T>(request: Request<T>): Promise<T> {
    const { network, life } = this.#parts;
    this.#statements += 1;
    const isSilent = this.#silence !== null && this.#statements >= this.#silence.statement;
    return isSilent
      ? network.callIntoSilence(life, this.#silence.delivered, request)
      : network.callOnce(life, request);
  }

  #bounded<T>(work: Promise<T>, ms: number, late: () => StoreError): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = this.#parts.life.world.startTimer(ms, () => reject(late()));
      work.then(resolve, reject).finally(() => timer.cancel());
    });
  }

  /** Should nothing arrive any more, the database ends the transaction of a dead connection. */
  #drop(): void {
    this.#parts.network.later(DROPPED_AFTER_MS, () => this.#end());
  }

  #end(): void {
    this.#open = false;
    this.#staged.clear();
    this.#parts.locks.releaseAll(this);
  }
}

function gone(code: 'ONCE_ROLLED_BACK' | 'ONCE_STORE_UNAVAILABLE'): StoreError {
  return new StoreError(code, 'the transaction has been rolled back', { applied: 'no' });
}

function lost(): StoreError {
  return new StoreError('ONCE_STORE_UNAVAILABLE', 'the connection was lost');
}
