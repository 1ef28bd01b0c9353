import type { Revision } from '../engine/record.ts';
import { type DurationMs, SECOND } from '../engine/units.ts';
import type { JobState } from './jobs-port.ts';

/** What a handler gets about its run. Key and signal are made when they are read: a spread copy lacks them. */
export interface JobContext {
  readonly jobId: string;
  readonly tenant: string;
  readonly type: string;
  /** 1 for the first run. */
  readonly attempt: number;
  /** Rises with every run. Give it to anything that can refuse a lower one. */
  readonly fence: Revision;
  /** The same for every run of this job and for no other job: whatever the job calls can dedupe on it. */
  readonly derivedKey: string;
  /** Aborted when the job is cancelled, the process closes, or another run has taken over. */
  readonly signal: AbortSignal;
}

/**
 * What a lost run means. `safe`: run the job again. `never`: it may have happened, so it is put in doubt and a person
 * decides; it is then started once at most.
 */
export type Rerun = 'safe' | 'never';

interface JobTypeBase {
  readonly type: string;
  readonly rerun: Rerun;
  /** The run whose error is final; 3 by default. A job that must never re-run has one. */
  readonly attempts?: number;
  /** Before the second run; doubled before each further one. */
  readonly backoffMs?: DurationMs;
}

/** A kind of job that this process runs. */
export interface HandledJob<Payload, Result> extends JobTypeBase {
  /** Turns the payload into what the job works with, or throws: the submission is rejected with the message. */
  readonly parse: (payload: unknown) => Payload;
  readonly run: (payload: Payload, context: JobContext) => Promise<Result>;
}

/** A kind of job that a queue of someone else runs. */
export interface ForwardedJob extends JobTypeBase {
  readonly parse: (payload: unknown) => unknown;
  readonly queue: JobQueue;
}

/** A kind of job, whatever its payload. Made by `defineJob`. */
export type JobType = HandledJobType | ForwardedJob;

export interface HandledJobType extends JobTypeBase {
  readonly parse: (payload: unknown) => unknown;
  /** Parses, then runs. */
  readonly runRaw: (payload: unknown, context: JobContext) => Promise<unknown>;
}

/** Declares a kind of job with the types of its payload and its result. */
export function defineJob<Payload, Result>(job: HandledJob<Payload, Result>): JobType;
export function defineJob(job: ForwardedJob): JobType;
export function defineJob<Payload, Result>(
  job: HandledJob<Payload, Result> | ForwardedJob,
): JobType {
  if ('queue' in job) return job;
  const { run, ...rest } = job;
  return { ...rest, runRaw: (payload, context) => run(job.parse(payload), context) };
}

export interface QueuedJob {
  readonly jobId: string;
  readonly tenant: string;
  readonly type: string;
  /** JSON text. */
  readonly payload: string;
  readonly derivedKey: string;
}

/** A queue beyond our store. */
export interface JobQueue {
  readonly name: string;
  /** Must do nothing when a job of this id exists: it may be called more than once. */
  enqueue(job: QueuedJob): Promise<void>;
  /** `null`: the queue knows no such job (any more). */
  find(jobId: string): Promise<QueuedJobView | null>;
  cancel(jobId: string): Promise<boolean>;
}

/** A queue in the store's own database: the reservation and the job are written in one commit. */
export interface TransactionalQueue<Tx> extends JobQueue {
  transact<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  enqueueWithin(tx: Tx, job: QueuedJob): Promise<void>;
}

export interface QueuedJobView {
  readonly state: JobState;
  readonly attempts: number;
  readonly result: unknown;
  readonly error: string | null;
}

/** Throw it from a handler when running again would not help: the job has failed. */
export class JobFailed extends Error {
  override readonly name = 'JobFailed';
}

/** Handing a job over is tried until the queue has it; how often the queue runs it is the queue's own affair. */
export function attemptsOf(type: JobType): number {
  if ('queue' in type) return Number.POSITIVE_INFINITY;
  return type.rerun === 'never' ? 1 : (type.attempts ?? 3);
}

/** A job that crashes its process each time is begun this often. */
const RUNS_AT_MOST = 20;

/**
 * Claims that may be made, lost ones included: a crash is rarely caused by the job that it interrupts. A job that
 * must not re-run may be claimed again too, when a claim was given back because its run had not begun.
 */
export function runsOf(type: JobType): number {
  return Math.max(attemptsOf(type), RUNS_AT_MOST);
}

/** May what this process does for the job be done again? Handing over may: the queue knows the id. */
export function isRepeatable(type: JobType): boolean {
  return 'queue' in type || type.rerun === 'safe';
}

const LONGEST_BACKOFF_MS = 60 * SECOND;

export function backoffOf(type: JobType, attempt: number): DurationMs {
  return Math.min((type.backoffMs ?? SECOND) * 2 ** (attempt - 1), LONGEST_BACKOFF_MS);
}

export function isTransactional(queue: JobQueue): queue is TransactionalQueue<unknown> {
  return 'enqueueWithin' in queue;
}
