import { randomUUID } from 'node:crypto';
import type { Engine } from '../../engine/engine.ts';
import { OncewardError } from '../../engine/errors.ts';
import { refuseUnknown } from '../../engine/known-options.ts';
import type {
  Attempt,
  Execution,
  Operation,
  PlacedRecord,
  Settlement,
} from '../../engine/operation.ts';
import type { Policy } from '../../engine/policy.ts';
import type { OperationId, Outcome, Revision, SettledState } from '../../engine/record.ts';
import type { Work } from '../../engine/run/placement.ts';
import type { DurationMs } from '../../engine/units.ts';
import type { World } from '../../engine/world.ts';
import {
  endOutcome,
  jobStep,
  runId,
  runScope,
  storedJobOf,
  submissionId,
  viewJob,
} from '../job-record.ts';
import { isTransactional, type JobType, type TransactionalQueue } from '../job-type.ts';
import type { CancelResult, JobList, JobQuery, JobsPort, JobView } from '../jobs-port.ts';
import { fromJsonBytes, toJsonBytes } from '../json-bytes.ts';
import {
  effectOf,
  KEEP_WAITING_MS,
  RUN_FINGERPRINT,
  Runner,
  type RunnerOptions,
} from '../runner.ts';
import { type Answer, refused, type Submission } from '../submission.ts';
import { type JobWindows, jobWindows, submissionPolicy } from '../windows.ts';

export interface JobManagerOptions
  extends Pick<RunnerOptions, 'concurrency' | 'keepEndedMs' | 'rescanMs' | 'onFault'> {
  readonly engine: Engine;
  readonly world: World;
  readonly types: readonly JobType[];
  readonly windows?: JobWindows;
  /** `false`: this manager takes jobs in and leaves running them to others on the same store. */
  readonly run?: boolean;
}

const KNOWN = {
  engine: true,
  world: true,
  types: true,
  windows: true,
  run: true,
  concurrency: true,
  keepEndedMs: true,
  rescanMs: true,
  onFault: true,
} satisfies Record<keyof JobManagerOptions, true>;

/**
 * Takes jobs in, each key once, and runs them. Two records on one store carry it: the submission's, which lives for a
 * window, and the job's own (`job-record.ts`), which lives until the job is over and for a day after.
 *
 *   1 reserve   submission pending; the claim itself carries the job's id
 *   2 place     job queued, under that id
 *   3 commit    submission committed, with the id as its answer
 *   4 ack
 *   5 claim     job running, under a lease
 *   6 run
 *   7 settle    job succeeded or failed
 *
 * What a crash leaves behind, and who picks it up:
 *
 *   before 1    nothing. The client got no answer, and retries.
 *   after 1     a pending submission. A retry takes it over, finds the id, and goes on with 2.
 *   after 2     a job that was not acknowledged. It is found by the scan and runs. A retry takes over, finds the job in
 *               its place, and commits the same id.
 *   after 3, 4  everything is there; the scan finds the job. A retry is answered with the id.
 *   after 5, 6  a lost run. The lease lapses, or the store is reopened: `rerun: 'safe'` runs again under a higher
 *               fence, `rerun: 'never'` is in doubt until a person resolves it.
 *   after 7     nothing is left to do.
 *
 * A store that writes several records at once does 1 to 3 for a new key in one write; a key that is not new, or is
 * being decided upon, goes step by step. With a queue in the store's own database 1 to 3 are one commit, and the queue
 * runs the job.
 */
export class JobManager implements JobsPort {
  readonly windows: JobWindows;
  readonly #engine: Engine;
  readonly #world: World;
  readonly #types: ReadonlyMap<string, JobType>;
  readonly #policy: Policy;
  readonly #runner: Runner;
  readonly #runs: boolean;
  readonly #writesTogether: boolean;

  constructor(options: JobManagerOptions) {
    refuseUnknown('the job manager', options, KNOWN);
    const { engine, world, types } = options;
    for (const type of types) checkQueue(type, engine);
    this.windows = options.windows ?? jobWindows;
    this.#engine = engine;
    this.#world = world;
    this.#types = new Map(types.map((type) => [type.type, type]));
    this.#policy = submissionPolicy(this.windows);
    this.#runs = options.run !== false;
    this.#writesTogether = engine.store.insertAll !== undefined;
    this.#runner = new Runner({
      ...options,
      types: this.#types,
      leaseMs: this.windows.pendingMs,
    });
    if (this.#runs) this.#runner.start();
  }

  get load(): { readonly ready: number; readonly running: number } {
    return this.#runner.load;
  }

  submit(submission: Submission, waitMs = this.#policy.waitMs): Promise<Answer> {
    const type = this.#types.get(submission.type);
    if (type !== undefined && 'queue' in type && isTransactional(type.queue)) {
      return this.#submitWithin(submission, type, type.queue, waitMs);
    }
    // What was first sent long ago is looked up before anything is written.
    const isNew = submission.firstSentAt === undefined;
    return type !== undefined && this.#writesTogether && isNew
      ? this.#submitAtOnce(submission, type, waitMs)
      : this.#submitByStep(submission, type, waitMs);
  }

  /**
   * For those who create jobs in a system of their own: reserves the key, or returns its outcome. The job's id is
   * minted with the first reservation and the same for every later one.
   */
  async checkOrReserve(submission: Submission): Promise<Reservation> {
    const result = await this.#engine.reserve(this.#operation(submission, this.#policy.waitMs));
    switch (result.decision) {
      case 'claimed': {
        const id = result.steps.find(({ name }) => name === ID_STEP);
        if (id === undefined) throw new Error('a reservation without a job id');
        const jobId = fromJsonBytes(id.bytes) as string;
        return { status: 'reserved', jobId, fence: result.fence, leaseUntil: result.leaseUntil };
      }
      case 'replay':
        return this.#again(submission.tenant, result);
      default:
        return refused(result.decision);
    }
  }

  /** False: the fence is not the one that may write any more. */
  async commit(submission: Submission, fence: Revision, jobId: string): Promise<boolean> {
    return this.#settle(submission, fence, { as: 'committed', outcome: idOutcome(jobId) });
  }

  async reject(submission: Submission, fence: Revision, reason: string): Promise<boolean> {
    return this.#settle(submission, fence, { as: 'rejected', outcome: reasonOutcome(reason) });
  }

  async find(tenant: string, jobId: string): Promise<JobView | null> {
    const view = await this.#engine.read(runId(tenant, jobId));
    const job = view === null ? null : this.#view(view);
    return job === null ? null : this.#withQueue(job);
  }

  async list({ tenant, state, limit }: JobQuery): Promise<JobList> {
    const jobs: JobView[] = [];
    let scanned = 0;
    const most = tenant === null ? LOOKED_AT_MOST_OF_ALL : LOOKED_AT_MOST;
    const scope = tenant === null ? {} : { scope: runScope(tenant) };
    for await (const view of this.#engine.list({ ...scope, limit: most })) {
      scanned += 1;
      const job = this.#view(view);
      if (job !== null && (state === undefined || job.queue !== null || job.state === state)) {
        jobs.push(job);
      }
    }
    jobs.sort((a, b) => b.submittedAt - a.submittedAt);
    const shown = await Promise.all(jobs.slice(0, limit).map((job) => this.#withQueue(job)));
    return {
      jobs: state === undefined ? shown : shown.filter((job) => job.state === state),
      complete: scanned < most && jobs.length <= limit,
    };
  }

  async cancel(tenant: string, jobId: string): Promise<CancelResult> {
    const id = runId(tenant, jobId);
    const view = await this.#engine.read(id);
    const job = view === null ? null : this.#view(view);
    if (view === null || job === null) return 'unknown';
    const type = this.#types.get(job.type);
    if (job.queue !== null) return this.#cancelQueued(job, type);
    const stored = view.record === null ? null : storedJobOf(view.record.steps);
    if (stored === null) return 'already_over';
    return this.#runner.cancel(id, stored, type);
  }

  async close(waitMs?: DurationMs): Promise<void> {
    await this.#runner.close(waitMs);
  }

  #operation(submission: Submission, waitMs: DurationMs): Operation {
    const { firstSentAt } = submission;
    return {
      ...(firstSentAt === undefined ? {} : { firstSentAt }),
      id: submissionId(submission.tenant, submission.key),
      fingerprint: submission.fingerprint,
      // The job is placed under an id that every attempt shares, so that repeating it changes nothing.
      effect: { kind: 'downstream' },
      policy: waitMs === this.#policy.waitMs ? this.#policy : { ...this.#policy, waitMs },
      firstSteps: [{ name: ID_STEP, bytes: toJsonBytes(randomUUID()) }],
    };
  }

  /** Step by step if it is no new submission, or none that can be taken in: there it will be seen which. */
  async #submitAtOnce(submission: Submission, type: JobType, waitMs: DurationMs): Promise<Answer> {
    if (whatIsWrong(submission, type) !== null) return this.#submitByStep(submission, type, waitMs);
    const { tenant, key, fingerprint } = submission;
    const { committedMs: keepMs } = this.windows;
    const jobId = randomUUID();
    const opens = this.#work(runId(tenant, jobId), submission, type);
    const outcome = idOutcome(jobId);
    let placed: PlacedRecord | null;
    try {
      placed = await this.#engine.place(
        { id: submissionId(tenant, key), fingerprint, outcome, keepMs, opens },
        this.#policy,
      );
    } catch (error) {
      if (isTooLarge(error)) return this.#submitByStep(submission, type, waitMs);
      if (!isStoreError(error)) throw error;
      // If it was written all the same, the scan finds the job and the retry its answer.
      return refused('unavailable', { retryAfterMs: 1_000 });
    }
    if (placed === null) return this.#submitByStep(submission, type, waitMs);
    if (this.#runs) this.#runner.offer(opens.id, type, placed);
    return { status: 'committed', jobId, wasDuplicate: false, keepMs };
  }

  async #submitByStep(
    submission: Submission,
    type: JobType | undefined,
    waitMs: DurationMs,
  ): Promise<Answer> {
    const execution = await this.#engine.execute(this.#operation(submission, waitMs), (attempt) =>
      this.#takeIn(submission, type, attempt),
    );
    return this.#answer(submission.tenant, execution);
  }

  #work(id: OperationId, { type: name, payload }: Submission, type: JobType): Work {
    const submittedAt = this.#world.now();
    return {
      id,
      fingerprint: RUN_FINGERPRINT,
      effect: effectOf(type),
      steps: [jobStep({ type: name, payload, submittedAt })],
      keepMs: KEEP_WAITING_MS,
    };
  }

  async #takeIn(
    submission: Submission,
    type: JobType | undefined,
    attempt: Attempt,
  ): Promise<Settlement> {
    const wrong = whatIsWrong(submission, type);
    if (wrong !== null || type === undefined) return reject(wrong ?? '');
    const jobId = await attempt.step<string>(ID_STEP, noId);
    const id = runId(submission.tenant, jobId);
    let placed: PlacedRecord | null;
    try {
      placed = await this.#engine.place(this.#work(id, submission, type), this.#policy);
    } catch (error) {
      if (!isTooLarge(error)) throw error;
      return reject(error.message);
    }
    if (this.#runs) this.#runner.offer(id, type, placed);
    return { as: 'committed', outcome: idOutcome(jobId) };
  }

  /** Reservation, job and answer in one commit of the queue's database. */
  async #submitWithin<Tx>(
    submission: Submission,
    type: JobType,
    queue: TransactionalQueue<Tx>,
    waitMs: DurationMs,
  ): Promise<Answer> {
    const execution = await this.#engine.executeWithin<Tx>(
      { ...this.#operation(submission, waitMs), effect: { kind: 'transaction' } },
      (work) => queue.transact(work),
      async (attempt, tx) => {
        const wrong = whatIsWrong(submission, type);
        if (wrong !== null) return reject(wrong);
        const jobId = randomUUID();
        const { tenant, payload } = submission;
        const derivedKey = attempt.downstreamKey;
        await queue.enqueueWithin(tx, { jobId, tenant, type: type.type, payload, derivedKey });
        const end = {
          type: type.type,
          state: 'handed_over',
          attempts: 0,
          submittedAt: this.#world.now(),
          queue: queue.name,
        } as const;
        await this.#engine.placeWithin(
          tx,
          {
            id: runId(tenant, jobId),
            fingerprint: RUN_FINGERPRINT,
            outcome: endOutcome(end, this.#policy.maxOutcomeBytes),
            keepMs: this.#runner.policy.keepCommittedMs,
          },
          this.#policy,
        );
        return { as: 'committed', outcome: idOutcome(jobId) };
      },
    );
    return this.#answer(submission.tenant, execution);
  }

  #answer(tenant: string, execution: Execution): Answer | Promise<Answer> {
    switch (execution.kind) {
      case 'executed': {
        const { settlement } = execution;
        if (!('outcome' in settlement)) return refused('in_progress', { retryAfterMs: 1_000 });
        return this.#settledAnswer(settlement.as, settlement.outcome, this.#engine.now(), false);
      }
      case 'replayed':
        return this.#again(tenant, execution);
      case 'refused': {
        const { reason, retryAfterMs = 1_000 } = execution;
        switch (reason) {
          case 'mismatch':
          case 'in_doubt':
          case 'expired':
            return refused(reason);
          case 'in_progress':
          case 'over_quota':
            return refused(reason, { retryAfterMs });
          default:
            return refused('unavailable', { retryAfterMs });
        }
      }
    }
  }

  /** A duplicate of a cancelled job is answered so: it will not run. */
  async #again(
    tenant: string,
    { state, outcome, settledAt }: Pick<Replayed, 'state' | 'outcome' | 'settledAt'>,
  ): Promise<Exclude<Answer, { status: 'refused' }>> {
    const answer = this.#settledAnswer(state, outcome, settledAt, true);
    if (answer.status !== 'committed') return answer;
    // Where the job cannot be read, it was taken in all the same.
    const job = await this.find(tenant, answer.jobId).catch(() => null);
    if (job?.state !== 'cancelled') return answer;
    return { ...answer, status: 'cancelled', happened: job.attempts === 0 ? 'no' : 'unknown' };
  }

  #settledAnswer(
    state: SettledState,
    outcome: Outcome,
    settledAt: number,
    wasDuplicate: boolean,
  ): Extract<Answer, { status: 'committed' | 'rejected' }> {
    const window = state === 'committed' ? this.windows.committedMs : this.windows.rejectedMs;
    const keepMs = Math.max(0, settledAt + window - this.#engine.now());
    const stored = fromJsonBytes(outcome.bytes) as { job_id?: string; reason?: string };
    return state === 'committed'
      ? { status: 'committed', jobId: stored.job_id ?? '', wasDuplicate, keepMs }
      : { status: 'rejected', reason: stored.reason ?? '', wasDuplicate, keepMs };
  }

  async #settle(
    { tenant, key }: Submission,
    fence: Revision,
    change: { readonly as: SettledState; readonly outcome: Outcome },
  ): Promise<boolean> {
    const id = submissionId(tenant, key);
    return (await this.#engine.writeFenced(id, fence, this.#policy, change)).done;
  }

  #view(view: Parameters<typeof viewJob>[0]): JobView | null {
    return viewJob(view, this.#engine.now(), this.#engine.store.traits.firstRevisionOfLife);
  }

  /** A job that was handed over is what its queue says it is. */
  async #withQueue(job: JobView): Promise<JobView> {
    const type = job.queue === null ? undefined : this.#types.get(job.type);
    if (type === undefined || !('queue' in type)) return job;
    const found = await type.queue.find(job.jobId);
    return found === null
      ? { ...job, error: 'its queue does not know it any more' }
      : { ...job, ...found };
  }

  async #cancelQueued(job: JobView, type: JobType | undefined): Promise<CancelResult> {
    if (type === undefined || !('queue' in type)) return 'running_elsewhere';
    return (await type.queue.cancel(job.jobId)) ? 'cancelled' : 'running_elsewhere';
  }
}

type Replayed = Extract<Execution, { kind: 'replayed' }>;

export type Reservation =
  | {
      readonly status: 'reserved';
      readonly jobId: string;
      readonly fence: Revision;
      readonly leaseUntil: number;
    }
  | Answer;

/** Records that one listing reads. Without a tenant, those of submissions and of other doors are among them. */
const LOOKED_AT_MOST = 10_000;
const LOOKED_AT_MOST_OF_ALL = 100_000;
const ID_STEP = 'job_id';
const ANSWER_TYPE = 'application/vnd.onceward.submission+json';

function checkQueue(type: JobType, engine: Engine): void {
  if (!('queue' in type) || !isTransactional(type.queue) || 'within' in engine.store) return;
  throw new OncewardError(
    'ONCE_INVALID_CONFIG',
    `jobs of type ${type.type} are written in one transaction with their reservation, which the ${engine.store.traits.name} store cannot share; use postgres`,
  );
}

function whatIsWrong(submission: Submission, type: JobType | undefined): string | null {
  if (type === undefined) return `there is no job type ${JSON.stringify(submission.type)}`;
  try {
    type.parse(JSON.parse(submission.payload));
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function isTooLarge(error: unknown): error is OncewardError {
  return error instanceof OncewardError && error.code === 'ONCE_TOO_LARGE';
}

function isStoreError(error: unknown): boolean {
  return error instanceof OncewardError && error.code.startsWith('ONCE_STORE_');
}

function noId(): Promise<never> {
  return Promise.reject(new Error('a claim without a job id'));
}

function reject(reason: string): Settlement {
  return { as: 'rejected', outcome: reasonOutcome(reason) };
}

function reasonOutcome(reason: string): Outcome {
  return { contentType: ANSWER_TYPE, bytes: toJsonBytes({ reason: reason.slice(0, 2_000) }) };
}

function idOutcome(jobId: string): Outcome {
  return { contentType: ANSWER_TYPE, bytes: toJsonBytes({ job_id: jobId }) };
}
