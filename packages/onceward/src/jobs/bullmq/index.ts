import { DAY, SECOND } from '../../engine/units.ts';
import type { JobQueue, QueuedJob, QueuedJobView } from '../job-type.ts';
import type { JobState } from '../jobs-port.ts';

/** The part of BullMQ's `Queue` that is used here; a queue of version 5 or 6 fits. */
export interface BullQueue {
  readonly name: string;
  add(name: string, data: BullJobData, options: BullJobOptions): Promise<unknown>;
  getJob(jobId: string): Promise<BullJob | undefined>;
}

interface BullJob {
  readonly attemptsMade: number;
  readonly returnvalue: unknown;
  readonly failedReason?: string;
  getState(): Promise<string>;
  remove(): Promise<unknown>;
}

interface BullJobOptions {
  readonly jobId: string;
  readonly attempts?: number;
  readonly removeOnComplete: { readonly age: number };
  readonly removeOnFail: { readonly age: number };
}

/** What a worker finds in `job.data`. */
export interface BullJobData {
  readonly tenant: string;
  readonly payload: unknown;
  /** The same in every run of this job and in no other: for what the worker calls. */
  readonly derivedKey: string;
}

export interface BullmqQueueOptions {
  readonly queue: BullQueue;
  /** Runs at most, as BullMQ counts them. */
  readonly attempts?: number;
  /** How long BullMQ remembers jobs that are over. It must know a job for longer than handing it over may take. */
  readonly keepEndedMs?: number;
}

const STATES: Readonly<Record<string, JobState>> = {
  active: 'running',
  completed: 'succeeded',
  failed: 'failed',
};

/**
 * Hands jobs to BullMQ under their own id, which BullMQ adds once: a job that is handed over again after a crash is the
 * one that is there. What a lost run means is BullMQ's to decide: it runs stalled jobs again unless its worker has
 * `maxStalledCount: 0`.
 */
export function bullmqQueue(options: BullmqQueueOptions): JobQueue {
  const { queue, attempts } = options;
  const age = (options.keepEndedMs ?? 7 * DAY) / SECOND;
  return {
    name: `bullmq:${queue.name}`,
    async enqueue(job: QueuedJob) {
      const { tenant, derivedKey } = job;
      const data = { tenant, derivedKey, payload: JSON.parse(job.payload) as unknown };
      await queue.add(job.type, data, {
        jobId: job.jobId,
        ...(attempts === undefined ? {} : { attempts }),
        removeOnComplete: { age },
        removeOnFail: { age },
      });
    },
    async find(jobId: string): Promise<QueuedJobView | null> {
      const job = await queue.getJob(jobId);
      if (job === undefined) return null;
      return {
        state: STATES[await job.getState()] ?? 'queued',
        attempts: job.attemptsMade,
        result: job.returnvalue ?? null,
        error: job.failedReason ?? null,
      };
    },
    async cancel(jobId: string) {
      const job = await queue.getJob(jobId);
      if (job === undefined || (await job.getState()) === 'active') return false;
      // Fails when a worker takes the job up at this moment: then it is running.
      return job.remove().then(
        () => true,
        () => false,
      );
    },
  };
}
