import type { RecordView } from '../engine/engine.ts';
import { isReleased } from '../engine/record/decide.ts';
import {
  NOT_RETAINED,
  type OperationId,
  type OperationRecord,
  type Outcome,
  type Step,
} from '../engine/record.ts';
import type { EpochMs } from '../engine/units.ts';
import type { JobState, JobView } from './jobs-port.ts';
import { fromJsonBytes, toJsonBytes } from './json-bytes.ts';

/**
 * A job's life is a record like any other, beside that of its submission:
 *
 *   queued      pending, given back, with the job itself as a step
 *   running     pending under a lease
 *   succeeded   committed          failed, cancelled   rejected          in doubt   in doubt
 *
 * So leases, fences, takeover, doubt, retention, the sweeper and the admin API are those of the engine.
 */
const RUN_SCOPE = 'job:';
const SUBMISSION_SCOPE = 'submission:';
const JOB_STEP = 'job';

export function submissionId(tenant: string, key: string): OperationId {
  return { scope: SUBMISSION_SCOPE + tenant, key };
}

export function runScope(tenant: string): string {
  return RUN_SCOPE + tenant;
}

export function runId(tenant: string, jobId: string): OperationId {
  return { scope: runScope(tenant), key: jobId };
}

/** Whose job a record is; `null` when it is no job at all. */
export function tenantOfRun(id: OperationId): string | null {
  return isRun(id) ? id.scope.slice(RUN_SCOPE.length) : null;
}

/** Whether a record is that of a run. Its changes are not those of a request. */
export function isRun(id: OperationId): boolean {
  return id.scope.startsWith(RUN_SCOPE);
}

/** What is kept of a job until it is over. */
export interface StoredJob {
  readonly type: string;
  readonly payload: string;
  readonly submittedAt: EpochMs;
}

/** What is kept of it afterwards. */
export interface StoredEnd {
  readonly type: string;
  readonly state: Extract<JobState, 'succeeded' | 'failed' | 'cancelled'> | 'handed_over';
  readonly attempts: number;
  readonly submittedAt: EpochMs;
  readonly result?: unknown;
  readonly error?: string;
  readonly queue?: string;
}

const END_TYPE = 'application/vnd.onceward.job+json';

export function jobStep(job: StoredJob): Step {
  return { name: JOB_STEP, bytes: toJsonBytes(job) };
}

export function storedJobOf(steps: readonly Step[]): StoredJob | null {
  const step = steps.find(({ name }) => name === JOB_STEP);
  return step === undefined ? null : (fromJsonBytes(step.bytes) as StoredJob);
}

/** The end of a job as an outcome. A result that is too long to keep is left out; that the job succeeded is not. */
export function endOutcome(end: StoredEnd, maxBytes: number): Outcome {
  const bytes = toJsonBytes(end);
  if (bytes.length <= maxBytes) return { contentType: END_TYPE, bytes };
  const { result: _result, ...rest } = end;
  return { contentType: END_TYPE, bytes: toJsonBytes({ ...rest, error: RESULT_TOO_LONG }) };
}

const RESULT_TOO_LONG = 'the result was too long to keep';
const NOTHING = { result: null, error: null, queue: null } as const;

/** What a record says of its job. `bornAt` is the first revision of an embedded store's present life. */
export function viewJob(view: RecordView, now: EpochMs, bornAt: number | null): JobView | null {
  const tenant = tenantOfRun(view.id);
  if (tenant === null) return null;
  const base = { ...NOTHING, jobId: view.id.key, tenant };
  const { record } = view;
  if (record === null) {
    const error = 'the record of this job cannot be read';
    return { ...base, type: '', state: 'in_doubt', attempts: 0, submittedAt: 0, error };
  }
  if ('outcome' in record) return { ...base, ...viewEnd(record) };
  const job = storedJobOf(record.steps);
  const orphaned = bornAt !== null && view.revision < bornAt;
  const { state, error } = openState(record, orphaned, now);
  return {
    ...base,
    type: job?.type ?? '',
    submittedAt: job?.submittedAt ?? record.createdAt,
    state,
    error,
    attempts: record.attempt,
  };
}

/** Is it runnable? */
export function isUp(record: OperationRecord, orphaned: boolean, now: EpochMs): boolean {
  return record.state === 'pending' && (orphaned || record.leaseUntil <= now);
}

function openState(
  record: Extract<OperationRecord, { state: 'pending' | 'in_doubt' }>,
  orphaned: boolean,
  now: EpochMs,
): { state: JobState; error: string | null } {
  if (record.state === 'in_doubt') {
    return { state: 'in_doubt', error: `it is not known whether the job ran (${record.reason})` };
  }
  if (isReleased(record)) return { state: 'queued', error: null };
  if (!isUp(record, orphaned, now)) return { state: 'running', error: null };
  // Its run was lost. What that means was declared when the run began.
  return record.onLapse === 'take_over'
    ? { state: 'queued', error: null }
    : { state: 'in_doubt', error: 'it is not known whether the job ran (lease_lapsed)' };
}

function viewEnd(
  record: Extract<OperationRecord, { outcome: unknown }>,
): Omit<JobView, 'jobId' | 'tenant'> {
  const { contentType, bytes } = record.outcome;
  if (contentType !== END_TYPE) {
    // An operator has resolved it, or the outcome was dropped: there is no more than the state.
    const said = record.resolution === null ? null : `resolved: ${record.resolution.reason}`;
    const error = contentType === NOT_RETAINED ? RESULT_TOO_LONG : said;
    const state = record.state === 'committed' ? 'succeeded' : 'failed';
    const { attempt: attempts, createdAt: submittedAt } = record;
    return { ...NOTHING, type: '', state, attempts, submittedAt, error };
  }
  const end = fromJsonBytes(bytes) as StoredEnd;
  return {
    type: end.type,
    state: end.state === 'handed_over' ? 'queued' : end.state,
    attempts: end.attempts,
    submittedAt: end.submittedAt,
    result: end.result ?? null,
    error: end.error ?? null,
    queue: end.queue ?? null,
  };
}
