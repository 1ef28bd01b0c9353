import type { DurationMs, EpochMs } from '../engine/units.ts';
import type { Answer, Submission } from './submission.ts';

/**
 * What stands behind a gate: the manager in the same process, managers reached over HTTP, or a router that knows
 * which data centre is at home to a tenant. All of them answer alike, so that they can be put before each other.
 */
export interface JobsPort {
  /** `waitMs` bounds the wait for a submission that is pending elsewhere; without it, policy does. */
  submit(submission: Submission, waitMs?: DurationMs): Promise<Answer>;
  find(tenant: string, jobId: string): Promise<JobView | null>;
  list(query: JobQuery): Promise<JobList>;
  cancel(tenant: string, jobId: string): Promise<CancelResult>;
}

export type JobState = 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled' | 'in_doubt';

export const JOB_STATES: readonly JobState[] = [
  'queued',
  'running',
  'succeeded',
  'failed',
  'cancelled',
  'in_doubt',
];

/** A job as people and tools see it. */
export interface JobView {
  readonly jobId: string;
  readonly tenant: string;
  readonly type: string;
  readonly state: JobState;
  /** How often it was claimed to be run, the present time included. A claim that was given back unused counts too. */
  readonly attempts: number;
  readonly submittedAt: EpochMs;
  /** What the last run returned, when it succeeded and was not too long to keep. */
  readonly result: unknown;
  /** Why it failed, was cancelled or is in doubt. */
  readonly error: string | null;
  /** The queue that the job was handed to, when it is not run here. */
  readonly queue: string | null;
}

export interface JobQuery {
  /** `null`: those of every tenant. */
  readonly tenant: string | null;
  readonly state?: JobState;
  readonly limit: number;
}

export interface JobList {
  readonly jobs: readonly JobView[];
  /** False: there may be more than were read. */
  readonly complete: boolean;
}

export type CancelResult =
  /** It will not run, or was asked to stop. */
  'cancelled' | 'stopping' | 'running_elsewhere' | 'already_over' | 'unknown';
