import { OncewardError } from './errors.ts';
import type { Audit, EngineEvent, Observe } from './events.ts';
import { checkFingerprint, checkId, checkOperation, checkOutcome } from './input.ts';
import { refuseUnknown } from './known-options.ts';
import { NearTier, type NearTierOptions } from './near/near-tier.ts';
import { type OnceEffect, type OnceOptions, resultOf, toOutcome, toValue } from './once.ts';
import {
  type Actor,
  type ChangeResult,
  extend,
  purge,
  resolveDoubt,
  type Verdict,
} from './operate/resolve.ts';
import { bounded, Sweeper, type SweepOptions, type SweepResult, sweep } from './operate/sweep.ts';
import { WriteCheck } from './operate/write-check.ts';
import type { Effect, Execution, Operation } from './operation.ts';
import type { EngineParts } from './parts.ts';
import type { Platform } from './platform.ts';
import {
  checkEffect,
  checkPolicy,
  type Policy,
  refuseUnknownEffect,
  refuseUnknownPolicy,
  requireDuration,
} from './policy.ts';
import { profiles } from './profiles.ts';
import type { Current } from './record/decide.ts';
import {
  NOT_RETAINED,
  type OperationId,
  type OperationRecord,
  type RecordState,
  type Revision,
} from './record.ts';
import type { RecordStore, StoreCount, TransactionalStore } from './record-store.ts';
import { executeOnce } from './run/execute-once.ts';
import { type DoneWork, type Placed, placeWork, type Work } from './run/placement.ts';
import {
  type FencedChange,
  type FencedResult,
  type ReserveResult,
  reserve,
  writeFenced,
} from './run/reservation.ts';
import { executeInTransaction, type Transact, type TransactionEffect } from './run/transaction.ts';
import { EngineClock } from './store-access/engine-clock.ts';
import { LateWork } from './store-access/late-work.ts';
import { callStore, readRecord, understand } from './store-access/store-calls.ts';
import { TimerLines } from './store-access/timer-lines.ts';
import { type EpochMs, MINUTE, SECOND } from './units.ts';
import { type World, wholeMilliseconds } from './world.ts';

export interface EngineOptions {
  readonly store: RecordStore;
  readonly world: World;
  readonly platform: Platform;
  readonly near?: NearTierOptions;
  /** `false`: only calls of `sweep` do it. */
  readonly sweep?: SweepOptions | false;
  readonly observe?: Observe;
  /** Gets a line of each verdict and each change by hand before it is made; what it rejects is not made. */
  readonly audit?: Audit;
  /** Appended to the name of every attempt. It comes back in the `owner` of the replays of that attempt. */
  readonly tagAttempt?: () => string;
}

/** A record as it is shown to people and tools. */
export interface RecordView {
  readonly id: OperationId;
  readonly revision: Revision;
  /** What an arrival would meet: an unreadable record counts as in doubt. */
  readonly state: RecordState;
  readonly record: OperationRecord | null;
}

export interface ListQuery {
  readonly states?: readonly RecordState[];
  readonly scope?: string;
  readonly limit: number;
}

/** One store, one near tier, one sweeper: everything doors are hung on. */
export class Engine {
  readonly #parts: EngineParts;
  readonly #sweeper: Sweeper | null;
  readonly #closing = new AbortController();
  readonly #writes = new WriteCheck();
  readonly #trialId: OperationId;

  constructor(options: EngineOptions) {
    refuseUnknown('the engine', options, KNOWN);
    if (options.near !== undefined) refuseUnknown('near', options.near, KNOWN_OF_NEAR);
    if (options.sweep) refuseUnknown('sweep', options.sweep, KNOWN_OF_SWEEP);
    this.#parts = assemble(options, this.#closing.signal, () => this.#writes.suspect());
    this.#trialId = { scope: NOBODY.scope, key: `trial-${options.world.token()}` };
    this.#sweeper = options.sweep === false ? null : new Sweeper(this.#parts, options.sweep);
    this.#sweeper?.start();
  }

  get store(): RecordStore {
    return this.#parts.store;
  }

  /** Runs an effect once and says what came of it. Bad input throws before anything is written. */
  execute(operation: Operation, effect: Effect): Promise<Execution> {
    return executeOnce(this.#parts, operation, effect);
  }

  /** Effect and record in one commit of the store's own database. */
  async executeWithin<Tx>(
    operation: Operation,
    transact: Transact<Tx>,
    effect: TransactionEffect<Tx>,
  ): Promise<Execution> {
    checkOperation(operation);
    const shared = this.#transactional<Tx>();
    return executeInTransaction(this.#parts, shared, operation, transact, effect);
  }

  /**
   * The function form, for any code: returns the value, of this run or of the one before. Values are kept as JSON. One
   * that JSON cannot hold is returned to the caller that ran the effect; retries get `ONCE_NOT_RETAINED`.
   */
  async once<T>(options: OnceOptions, effect: OnceEffect<T>): Promise<T> {
    refuseUnknown('once', options, KNOWN_BY_ONCE);
    refuseUnknownPolicy(options.policy);
    refuseUnknownEffect(options.effect);
    const { scope, key, input, probe, signal } = options;
    const asked = JSON.stringify(input ?? null);
    const operation: Operation = {
      id: { scope, key },
      fingerprint: this.#parts.platform.digest(asked),
      effect: options.effect,
      policy: { ...profiles.http, ...options.policy },
      ...(probe === undefined ? {} : { probe }),
      ...(signal === undefined ? {} : { signal }),
    };
    let unkept: { readonly value: T } | null = null;
    const execution = await this.execute(operation, async (attempt) => {
      const value = await effect(attempt);
      const outcome = toOutcome(value);
      if (outcome.contentType === NOT_RETAINED) unkept = { value };
      return { as: 'committed', outcome };
    });
    // The caller that ran it gets what it returned, this once.
    const own = unkept as { readonly value: T } | null;
    const isOwn = own !== null && execution.kind === 'executed';
    const value = isOwn ? own.value : toValue<T>(execution);
    const result = resultOf(execution);
    if (result !== null) options.onResult?.(result);
    return value;
  }

  async reserve(operation: Omit<Operation, 'signal' | 'probe'>): Promise<ReserveResult> {
    checkOperation(operation);
    return reserve(this.#parts, operation);
  }

  async writeFenced(
    id: OperationId,
    fence: Revision,
    policy: Policy,
    change: FencedChange,
  ): Promise<FencedResult> {
    checkId(id);
    checkPolicy(policy);
    return writeFenced(this.#parts, id, fence, policy, change);
  }

  /** Keeps work that is executed later under the same id. Placed twice, it is there once. */
  async place(work: Work | DoneWork, policy: Policy): Promise<Placed> {
    checkWork(work, policy);
    return placeWork(this.#parts, this.#parts.store, work, policy);
  }

  /** The same in the caller's own transaction: there if it commits, and only then. */
  async placeWithin<Tx>(tx: Tx, work: Work | DoneWork, policy: Policy): Promise<Placed> {
    checkWork(work, policy);
    return placeWork(this.#parts, this.#transactional<Tx>().within(tx), work, policy);
  }

  async read(id: OperationId): Promise<RecordView | null> {
    checkId(id);
    const found = await readRecord(this.#parts, BOUND, id);
    return found === null ? null : view(id, found);
  }

  async *list(query: ListQuery): AsyncIterable<RecordView> {
    const { store } = this.#parts;
    for await (const found of bounded(this.#parts, 'read', store.scan(query))) {
      yield view(found.id, understand(this.#parts, found.id, found)!);
    }
  }

  /** Fails when the store does not answer, has not given the time yet, or takes no writes since one has failed. */
  async ping(): Promise<void> {
    await this.#parts.clock.ready();
    await callStore(this.#parts, 'read', BOUND, () => this.#parts.store.read(NOBODY));
    await this.#writes.assertWritable(this.#parts, this.#trialId, BOUND);
  }

  count(): Promise<StoreCount> {
    return callStore(this.#parts, 'read', BOUND, () => this.#parts.store.count());
  }

  /** The time that leases are judged by: the store's, where it has a clock. */
  now(): EpochMs {
    return this.#parts.clock.time().leases;
  }

  /** What this process holds in memory. */
  get near(): NearTier['size'] {
    return this.#parts.near.size;
  }

  async resolve(id: OperationId, verdict: Verdict): Promise<ChangeResult> {
    checkId(id);
    return resolveDoubt(this.#parts, id, verdict);
  }

  async purge(id: OperationId, actor: Actor): Promise<ChangeResult> {
    checkId(id);
    return purge(this.#parts, id, actor);
  }

  async extend(id: OperationId, keepMs: number, actor: Actor): Promise<ChangeResult> {
    checkId(id);
    return extend(this.#parts, id, keepMs, actor);
  }

  sweep(batch = 1_000): Promise<SweepResult> {
    return sweep(this.#parts, batch);
  }

  /**
   * Stops the background work; records that a store was too ill to take get `graceMs` more. The store is its
   * owner's to close.
   */
  async close(graceMs = 0): Promise<void> {
    this.#closing.abort();
    const { late, abandoned } = this.#parts;
    await Promise.all([late.close(graceMs), abandoned.close(graceMs)]);
    await this.#sweeper?.stop();
    this.#parts.clock.close();
  }

  #transactional<Tx>(): TransactionalStore<Tx> {
    const { store } = this.#parts;
    if ('within' in store) return store as TransactionalStore<Tx>;
    throw new OncewardError(
      'ONCE_INVALID_CONFIG',
      `the ${store.traits.name} store cannot share a transaction; use sqlite or postgres`,
    );
  }
}

function view(id: OperationId, { revision, record }: Current): RecordView {
  return { id, revision, state: record?.state ?? 'in_doubt', record };
}

const KNOWN = {
  store: true,
  world: true,
  platform: true,
  near: true,
  sweep: true,
  observe: true,
  audit: true,
  tagAttempt: true,
} satisfies Record<keyof EngineOptions, true>;

const KNOWN_OF_NEAR = {
  maxEntries: true,
  maxBytes: true,
  maxRunning: true,
} satisfies Record<keyof NearTierOptions, true>;

const KNOWN_OF_SWEEP = {
  everyMs: true,
  batch: true,
} satisfies Record<keyof SweepOptions, true>;

const KNOWN_BY_ONCE = {
  scope: true,
  key: true,
  effect: true,
  input: true,
  policy: true,
  probe: true,
  signal: true,
  onResult: true,
} satisfies Record<keyof OnceOptions, true>;

const BOUND = { storeTimeoutMs: 5 * SECOND };

const NOBODY: OperationId = { scope: 'onceward', key: 'ping' };

function checkWork(work: Work | DoneWork, policy: Policy): void {
  checkId(work.id);
  checkFingerprint(work.fingerprint);
  checkPolicy(policy);
  requireDuration('keepMs', work.keepMs, 1);
  if ('outcome' in work) checkOutcome(work.outcome, policy.maxOutcomeBytes);
  else checkEffect(work.effect);
}

function assemble(
  options: EngineOptions,
  closing: AbortSignal,
  onWriteError: () => void,
): EngineParts {
  const { store, platform, tagAttempt } = options;
  const world = wholeMilliseconds(options.world);
  const observe = options.observe === undefined ? ignoreEvent : quietly(options.observe);
  const engineToken = world.token();
  const calls = {
    timers: new TimerLines(world),
    observe(event: EngineEvent) {
      if (event.type === 'store_error' && event.phase !== 'read') onWriteError();
      observe(event);
    },
  };
  let attempts = 0;
  return {
    ...calls,
    closing,
    store,
    world,
    platform,
    near: new NearTier(options.near, world.token()),
    clock: new EngineClock({
      world,
      store,
      observe: calls.observe,
      ask: (clock, storeTimeoutMs) => callStore(calls, 'read', { storeTimeoutMs }, clock),
    }),
    late: new LateWork(world, { forMs: 10 * MINUTE, atMost: 1_000 }),
    abandoned: new LateWork(world, { forMs: 10 * MINUTE, atMost: 1_000 }),
    audit: options.audit ?? ignoreLine,
    nextOwner() {
      attempts += 1;
      const name = `${engineToken}.${attempts.toString(36)}`;
      return tagAttempt === undefined ? name : name + tagAttempt();
    },
    downstreamKey({ scope, key }) {
      return platform.digest(`onceward-downstream\0${scope}\0${key}`);
    },
  };
}

/** What an observer throws must not become the caller's error, or leave a call without an answer. */
function quietly(observe: Observe): Observe {
  return (event) => {
    try {
      observe(event);
    } catch {
      // An observer's mistake is no reason to stop.
    }
  };
}

function ignoreEvent(): void {}

async function ignoreLine(): Promise<void> {}
