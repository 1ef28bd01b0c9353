import type { Engine } from '../engine/engine.ts';
import { OncewardError } from '../engine/errors.ts';
import type {
  Attempt,
  Effect,
  Execution,
  Operation,
  PlacedRecord,
  Settlement,
} from '../engine/operation.ts';
import { type EffectKind, OUTCOME_CEILING, type Policy } from '../engine/policy.ts';
import { profiles } from '../engine/profiles.ts';
import type { OperationId, Outcome, Revision } from '../engine/record.ts';
import { NothingDone, OutcomeUnknown } from '../engine/run/attempt.ts';
import { DAY, type DurationMs, KIB, MINUTE, SECOND } from '../engine/units.ts';
import type { Timer, World } from '../engine/world.ts';
import { FairQueue } from './fair-queue.ts';
import { FairShares } from './fair-shares.ts';
import {
  endOutcome,
  isUp,
  type StoredEnd,
  type StoredJob,
  storedJobOf,
  tenantOfRun,
} from './job-record.ts';
import {
  attemptsOf,
  backoffOf,
  isRepeatable,
  type JobContext,
  JobFailed,
  type JobType,
  runsOf,
} from './job-type.ts';
import type { CancelResult } from './jobs-port.ts';

export interface RunnerOptions {
  readonly engine: Engine;
  readonly world: World;
  readonly types: ReadonlyMap<string, JobType>;
  readonly leaseMs: DurationMs;
  /** Jobs that run at once; 64 by default. A quarter more may run of tenants that would have to wait for others. */
  readonly concurrency?: number;
  /** How long the end of a job is kept; a day by default. */
  readonly keepEndedMs?: DurationMs;
  /** How often the store is scanned for runnable jobs. */
  readonly rescanMs?: DurationMs;
  readonly onFault?: (error: unknown, id: OperationId | null) => void;
}

/** Jobs held ready in memory at most. What does not fit waits in the store and is found by the next scan. */
const HELD_AT_MOST = 10_000;
/** A longer job is read from the store when its turn comes: ten thousand of them would not fit in memory. */
const HELD_BYTES_EACH = 4 * KIB;
/** All that waits must outlive any outage; a year is the engine's longest. */
export const KEEP_WAITING_MS = 365 * DAY;
/** The same for every job: the id is random, so there is no other payload to take it for. */
export const RUN_FINGERPRINT = 'job';
const FULL_SCAN_EVERY_MS = MINUTE;
const CANCELLED = 'the job was cancelled';

interface Ready {
  readonly id: OperationId;
  readonly type: JobType;
  /** What this process has written of it a moment ago; `null` when it was found. */
  readonly placed: PlacedRecord | null;
}

/**
 * Runs what is queued. Jobs taken in by this process come by `offer`, at once; a scan finds those whose process died,
 * or that did not fit. The first to claim a job runs it: several runners on one store need no coordination.
 */
export class Runner {
  readonly #options: RunnerOptions;
  readonly #policy: Policy;
  readonly #ready = new FairQueue<Ready>();
  readonly #slots: FairShares;
  readonly #room = new FairShares(HELD_AT_MOST);
  readonly #held = new Set<string>();
  readonly #running = new Map<string, Stop>();
  readonly #ended = new Set<() => void>();
  #timer: Timer | null = null;
  #scan: Promise<void> = Promise.resolve();
  #fullScanAt = Number.NEGATIVE_INFINITY;
  /** Tenants with jobs that did not fit. */
  readonly #overflowed = new Set<string>();
  #closed = false;

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#slots = new FairShares(options.concurrency ?? 64);
    const keep = options.keepEndedMs ?? DAY;
    this.#policy = {
      ...profiles.jobs,
      leaseMs: options.leaseMs,
      waitMs: 0,
      keepCommittedMs: keep,
      keepRejectedMs: keep,
      keepLapsedMs: KEEP_WAITING_MS,
      // Views are read straight from the record.
      packAboveBytes: OUTCOME_CEILING,
    };
  }

  get policy(): Policy {
    return this.#policy;
  }

  get load(): { readonly ready: number; readonly running: number } {
    return { ready: this.#ready.size, running: this.#running.size };
  }

  start(): void {
    this.#scan = this.#rescan(true);
    this.#schedule();
  }

  offer(id: OperationId, type: JobType, placed: PlacedRecord | null): void {
    if (this.#closed || this.#held.has(id.key)) return;
    const tenant = tenantOf(id);
    if (!this.#room.mayTake(tenant)) {
      this.#overflowed.add(tenant);
      return;
    }
    this.#room.take(tenant);
    this.#held.add(id.key);
    this.#ready.push(tenant, { id, type, placed: isShort(placed) ? placed : null });
    this.#fill();
  }

  /** Cancels a job that has not begun; aborts one that runs here. */
  async cancel(id: OperationId, job: StoredJob, type: JobType | undefined): Promise<CancelResult> {
    const here = this.#running.get(id.key);
    if (here !== undefined) {
      here.abort(new JobFailed(CANCELLED));
      return 'stopping';
    }
    // To cancel is to run the job in a way that ends at once: the claim decides between the two.
    const execution = await this.#options.engine.execute(
      this.#operation(id, type),
      async (attempt) => {
        const end = { type: job.type, submittedAt: job.submittedAt, error: CANCELLED } as const;
        const attempts = attempt.number - 1;
        return rejected(this.#end({ ...end, state: 'cancelled', attempts }));
      },
    );
    switch (execution.kind) {
      case 'executed':
        return 'cancelled';
      case 'replayed':
        return 'already_over';
      case 'refused':
        if (execution.reason === 'in_progress') return 'running_elsewhere';
        if (execution.reason === 'in_doubt') return 'already_over';
        throw new OncewardError('ONCE_STORE_UNAVAILABLE', 'the store did not answer', {
          cause: execution.cause,
        });
    }
  }

  /** Begins no more jobs, aborts those that run, and waits for them at most so long. */
  async close(waitMs: DurationMs = 10 * SECOND): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await this.#scan;
    if (this.#running.size === 0) return;
    const { world } = this.#options;
    await new Promise<void>((resolve) => {
      const timer = world.startTimer(waitMs, resolve);
      this.#ended.add(() => {
        if (this.#running.size > 0) return;
        timer.cancel();
        resolve();
      });
    });
    for (const stop of this.#running.values()) stop.abort(new Error('the process is closing'));
  }

  #fill(): void {
    while (!this.#closed) {
      const next = this.#ready.next(this.#mayRun);
      if (next === undefined) break;
      void this.#run(next);
    }
    if (this.#overflowed.size > 0 && !this.#closed) this.#scanForOverflowed();
  }

  readonly #mayRun = (tenant: string): boolean => this.#slots.mayTake(tenant);

  /** A tenant whose jobs did not fit and that has none ready any more has more in the store. */
  #scanForOverflowed(): void {
    const isOut = (tenant: string) => !this.#ready.has(tenant) && this.#room.mayTake(tenant);
    if (![...this.#overflowed].some(isOut)) return;
    this.#overflowed.clear();
    this.#scan = this.#scan.then(() => this.#rescan(true));
  }

  async #run(ready: Ready): Promise<void> {
    const { id, type, placed } = ready;
    const stop = new Stop();
    const tenant = tenantOf(id);
    this.#running.set(id.key, stop);
    this.#slots.take(tenant);
    let again: DurationMs | null = null;
    try {
      const operation = this.#operation(id, type, placed);
      const execution = await this.#options.engine.execute(operation, this.#effect(ready, stop));
      again = retryIn(execution, type);
    } catch (error) {
      const isExpected = error instanceof OutcomeUnknown || error instanceof Vanished;
      if (!isExpected) this.#options.onFault?.(error, id);
    }
    this.#running.delete(id.key);
    this.#slots.giveBack(tenant);
    if (again === null || this.#closed) {
      this.#held.delete(id.key);
      this.#room.giveBack(tenant);
    } else {
      this.#startLater(ready, again);
    }
    if (this.#ended.size > 0) for (const notify of this.#ended) notify();
    this.#fill();
  }

  #startLater(ready: Ready, ms: DurationMs): void {
    this.#options.world.startTimer(ms, () => {
      this.#ready.push(tenantOf(ready.id), { ...ready, placed: null });
      this.#fill();
    });
  }

  #operation(
    id: OperationId,
    type: JobType | undefined,
    placed: PlacedRecord | null = null,
  ): Operation {
    const fingerprint = RUN_FINGERPRINT;
    const effect = effectOf(type);
    const policy = this.#policy;
    return placed === null
      ? { id, fingerprint, effect, policy, remember: false }
      : { id, fingerprint, effect, policy, remember: false, placed };
  }

  #effect({ type }: Ready, stop: Stop): Effect {
    return async (attempt) => {
      const job = await attempt.step<StoredJob>('job', vanished);
      const { type: name, submittedAt } = job;
      const attempts = attempt.number;
      if (attempts > runsOf(type)) {
        const error = `given up: ${attempts - 1} runs were begun and none came to an end`;
        const about = { type: name, submittedAt, attempts: attempts - 1 };
        return rejected(this.#end({ ...about, state: 'failed', error }));
      }
      try {
        // Cancelled while it was being claimed: it need not begin.
        if (stop.reason instanceof JobFailed) throw stop.reason;
        const result = await perform(type, job, attempt, stop);
        const end: StoredEnd =
          'queue' in type
            ? { type: name, state: 'handed_over', attempts, submittedAt, queue: type.queue.name }
            : { type: name, state: 'succeeded', attempts, submittedAt, result };
        return committed(this.#end(end));
      } catch (error) {
        const about = { type: name, submittedAt, attempts };
        return this.#failed(error, about, type, attempt, stop);
      }
    };
  }

  #failed(
    error: unknown,
    about: { type: string; submittedAt: number; attempts: number },
    type: JobType,
    attempt: Attempt,
    stop: Stop,
  ): Settlement {
    if (error instanceof OutcomeUnknown) throw error;
    if (stop.reason instanceof JobFailed) {
      return rejected(this.#end({ ...about, state: 'cancelled', error: CANCELLED }));
    }
    const isFinal = error instanceof JobFailed || attempt.number >= attemptsOf(type);
    if (!isFinal) return { as: 'released' };
    const message = error instanceof Error ? error.message : String(error);
    return rejected(this.#end({ ...about, state: 'failed', error: message.slice(0, 2_000) }));
  }

  #end(end: StoredEnd): Outcome {
    return endOutcome(end, this.#policy.maxOutcomeBytes);
  }

  #schedule(): void {
    if (this.#closed) return;
    this.#timer = this.#options.world.startTimer(this.#options.rescanMs ?? 5 * SECOND, () => {
      this.#scan = this.#scan.then(() => this.#rescan(false));
      void this.#scan.then(() => this.#schedule());
    });
  }

  /**
   * Offers every job that is up and that is not held here already. A runner with jobs waiting could not begin what it
   * finds, so it scans once a minute only; otherwise jobs of a crashed runner would never be retried. That scan goes
   * through all of them; one in between ends when it has met as many that do not fit as can be held.
   */
  async #rescan(isWanted: boolean): Promise<void> {
    const now = this.#options.world.elapsed();
    const isThorough = now - this.#fullScanAt >= FULL_SCAN_EVERY_MS;
    if (!isWanted && this.#ready.size > 0 && !isThorough) return;
    if (isThorough) this.#fullScanAt = now;
    const { engine, types, onFault } = this.#options;
    const bornAt = engine.store.traits.firstRevisionOfLife;
    let unfit = 0;
    try {
      const query = { states: ['pending'], limit: Number.MAX_SAFE_INTEGER } as const;
      for await (const { id, record, revision } of engine.list(query)) {
        if (this.#closed || (unfit >= HELD_AT_MOST && !isThorough)) return;
        if (record === null || tenantOfRun(id) === null || this.#held.has(id.key)) continue;
        const orphaned = bornAt !== null && revision < bornAt;
        if (!isUp(record, orphaned, engine.now())) continue;
        const type = types.get(storedJobOf(record.steps)?.type ?? '');
        if (type === undefined) continue;
        this.offer(id, type, null);
        if (!this.#held.has(id.key)) unfit += 1;
      }
    } catch (error) {
      onFault?.(error, null);
    }
  }
}

function tenantOf(id: OperationId): string {
  return tenantOfRun(id) ?? '';
}

function isShort(placed: PlacedRecord | null): boolean {
  return placed?.steps.every(({ bytes }) => bytes.length <= HELD_BYTES_EACH) ?? false;
}

/** An abort controller that costs nothing until its signal is used. */
class Stop {
  reason: Error | null = null;
  #controller: AbortController | null = null;

  abort(reason: Error): void {
    this.reason ??= reason;
    this.#controller?.abort(this.reason);
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.reason !== null) this.#controller.abort(this.reason);
    }
    return this.#controller.signal;
  }
}

/** The record was purged between the scan and the claim: there is nothing to run, and the claim is given back. */
class Vanished extends NothingDone {}

function vanished(): Promise<never> {
  return Promise.reject(new Vanished('the job was purged'));
}

/** May throw at once as well. */
function perform(type: JobType, job: StoredJob, attempt: Attempt, stop: Stop): Promise<unknown> {
  if ('queue' in type) {
    const { id, downstreamKey: derivedKey } = attempt;
    const tenant = tenantOfRun(id) ?? '';
    const { payload } = job;
    return type.queue.enqueue({ jobId: id.key, tenant, type: job.type, payload, derivedKey });
  }
  return type.runRaw(JSON.parse(job.payload), new RunContext(job.type, attempt, stop));
}

/** What costs something is made when it is asked for: most handlers never do. */
class RunContext implements JobContext {
  readonly jobId: string;
  readonly tenant: string;
  readonly type: string;
  readonly attempt: number;
  readonly fence: Revision;
  readonly #attempt: Attempt;
  readonly #stop: Stop;

  constructor(type: string, attempt: Attempt, stop: Stop) {
    this.jobId = attempt.id.key;
    this.tenant = tenantOfRun(attempt.id) ?? '';
    this.type = type;
    this.attempt = attempt.number;
    this.fence = attempt.fence;
    this.#attempt = attempt;
    this.#stop = stop;
  }

  get derivedKey(): string {
    return this.#attempt.downstreamKey;
  }

  get signal(): AbortSignal {
    return AbortSignal.any([this.#attempt.signal, this.#stop.signal]);
  }
}

/** What a lost run of such a job means. One of an unknown type is not repeated. */
export function effectOf(type: JobType | undefined): EffectKind {
  return type !== undefined && isRepeatable(type) ? RUN_AGAIN : RUN_ONCE;
}

const RUN_AGAIN: EffectKind = { kind: 'external', onLapse: 'take_over' };
const RUN_ONCE: EffectKind = { kind: 'external', onLapse: 'in_doubt' };

/** `null`: there is nothing left to do here. */
function retryIn(execution: Execution, type: JobType): DurationMs | null {
  if (execution.kind !== 'executed' || execution.settlement.as !== 'released') return null;
  return execution.attempt >= attemptsOf(type) ? null : backoffOf(type, execution.attempt);
}

function committed(outcome: Outcome): Settlement {
  return { as: 'committed', outcome };
}

function rejected(outcome: Outcome): Settlement {
  return { as: 'rejected', outcome };
}
