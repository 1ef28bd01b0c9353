import type { Engine, EngineEvent, OperationId, OperationRecord } from 'onceward';
import { Problem } from '../api/problem.ts';
import type { Settings } from '../config/settings.ts';
import { OpenRecords } from './open-records.ts';

export type QuotaSettings = Pick<
  Settings,
  'maxOpenPerScope' | 'maxOpenPerTenant' | 'maxJobsPerTenant'
>;

interface Limit {
  readonly most: number;
  readonly setting: string;
  readonly what: string;
}

const RETRY_AFTER_SECONDS = 5;
/** A full quota is recounted in the store, but no more often than this, and for a small share of the time. */
const RECOUNT_EVERY_MS = 5_000;
const RECOUNT_SHARE = 20;

/**
 * How many records may be open at once, of a scope, of a tenant, and of a tenant's jobs. What is open already, or
 * settled, is answered whatever the quota says: only a new record needs room.
 */
export class Quota {
  readonly #engine: Engine;
  readonly #settings: QuotaSettings;
  readonly #emit: (event: EngineEvent) => void;
  #open = new OpenRecords();
  /** Being counted; also gets the events meanwhile. */
  #next: OpenRecords | null = null;
  #recounting: Promise<void> | null = null;
  #recountAt = 0;

  constructor(engine: Engine, settings: QuotaSettings, emit: (event: EngineEvent) => void) {
    this.#engine = engine;
    this.#settings = settings;
    this.#emit = emit;
  }

  readonly note = (event: EngineEvent): void => {
    this.#open.note(event);
    this.#next?.note(event);
  };

  /** A record whose creation the engine does not emit. */
  add(id: OperationId): void {
    this.#open.add(id);
    this.#next?.add(id);
  }

  /**
   * Counts a new operation from before it is made, so that many at once keep to the limit. `isOpen` says of the result
   * whether it has come to be.
   */
  async during<T>(
    id: OperationId,
    make: () => Promise<T>,
    isOpen: (made: T) => boolean,
  ): Promise<T> {
    if (this.#open.has(id)) return make();
    this.add(id);
    let stays = false;
    try {
      const made = await make();
      stays = isOpen(made);
      return made;
    } finally {
      if (!stays) this.delete(id);
    }
  }

  /** The same for one that was removed. */
  delete(id: OperationId): void {
    this.#open.delete(id);
    this.#next?.delete(id);
  }

  /** The limit that a new operation would pass, as far as is known at once. */
  fullFor({ scope }: OperationId): Limit | null {
    const { maxOpenPerScope, maxOpenPerTenant } = this.#settings;
    if (this.#open.ofScope(scope) >= maxOpenPerScope) {
      const what = 'operations of this scope are pending or in doubt';
      return { most: maxOpenPerScope, setting: 'ONCEWARD_MAX_OPEN_PER_SCOPE', what };
    }
    if (this.#open.ofTenant(scope) < maxOpenPerTenant) return null;
    const what = 'operations of this tenant are pending or in doubt';
    return { most: maxOpenPerTenant, setting: 'ONCEWARD_MAX_OPEN_PER_TENANT', what };
  }

  /** The same for a new job, by the scope of the tenant's jobs. */
  fullForJob({ scope }: OperationId): Limit | null {
    const { maxJobsPerTenant: most } = this.#settings;
    if (this.#open.ofScope(scope) < most) return null;
    const what = 'jobs of this tenant are waiting, running or in doubt';
    return { most, setting: 'ONCEWARD_MAX_JOBS_PER_TENANT', what };
  }

  /** Recounts in the store, and checks whether the record is really new. `null`: it may go on. */
  async refusal(id: OperationId, full: () => Limit | null): Promise<Problem | null> {
    if (full() === null) return null;
    await this.#recountIfDue();
    const limit = full();
    if (limit === null || (await this.#engine.read(id)) !== null) return null;
    this.#emit({ type: 'over_quota', id });
    const { most, setting, what } = limit;
    return new Problem(
      'over-quota',
      `${most} ${what}, and no more may be (${setting}); settle or resolve some, then retry with the same key`,
      { retryAfterSeconds: RETRY_AFTER_SECONDS },
    );
  }

  /** Counts what is open in the store. Records of other processes on the same store are counted too. */
  recount(): Promise<void> {
    this.#recounting ??= this.#count().finally(() => {
      this.#recounting = null;
    });
    return this.#recounting;
  }

  async #recountIfDue(): Promise<void> {
    // The next caller of a store that does not answer gets its error.
    if (performance.now() >= this.#recountAt) await this.recount().catch(() => {});
  }

  async #count(): Promise<void> {
    const beganAt = performance.now();
    const next = new OpenRecords();
    this.#next = next;
    try {
      const query = { states: ['pending', 'in_doubt'], limit: Number.MAX_SAFE_INTEGER } as const;
      for await (const { id, record } of this.#engine.list(query)) {
        if (isOpen(id, record)) next.add(id);
      }
      this.#open = next;
    } finally {
      this.#next = null;
      const now = performance.now();
      this.#recountAt = now + Math.max(RECOUNT_EVERY_MS, (now - beganAt) * RECOUNT_SHARE);
    }
  }
}

/** A claim that was given back is over, though its record stays; a queued job has the same state, and is not. */
function isOpen({ scope }: OperationId, record: OperationRecord | null): boolean {
  return record?.state !== 'pending' || record.leaseUntil > 0 || scope.startsWith('job:');
}
