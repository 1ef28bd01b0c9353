import { OncewardError } from '../../engine/errors.ts';
import type { QueuedJob, QueuedJobView, TransactionalQueue } from '../job-type.ts';
import type { JobState } from '../jobs-port.ts';

/** The part of pg-boss that is used here; versions 10 to 12 fit. */
export interface Boss {
  createQueue(name: string): Promise<unknown>;
  send(name: string, data: object, options: BossSendOptions): Promise<string | null>;
  getJobById(name: string, id: string): Promise<BossJob | null>;
  cancel(name: string, id: string): Promise<unknown>;
}

interface BossSendOptions {
  readonly id: string;
  readonly retryLimit?: number;
  readonly db?: BossDb;
}

interface BossDb {
  executeSql(text: string, values: unknown[]): Promise<{ rows: unknown[] }>;
}

interface BossJob {
  readonly state: string;
  readonly retryCount: number;
  readonly startedOn: Date | null;
  readonly output: unknown;
}

/** The part of `pg` that is used here. */
export interface BossPool {
  connect(): Promise<BossClient>;
}

export interface BossClient {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
  release(destroy?: boolean): void;
}

/** What a worker finds in `job.data`. */
export interface BossJobData {
  readonly tenant: string;
  readonly payload: unknown;
  /** The same in every run of this job and in no other: for what the worker calls. */
  readonly derivedKey: string;
}

export interface PgBossQueueOptions {
  readonly boss: Boss;
  /** The queue of pg-boss, which must exist. */
  readonly queue: string;
  /** Leads to the database of pg-boss, which must be that of the PostgreSQL store. */
  readonly pool: BossPool;
  /** Runs after the first that failed. A job that must never re-run has 0. */
  readonly retryLimit?: number;
}

const STATES: Readonly<Record<string, JobState>> = {
  active: 'running',
  completed: 'succeeded',
  failed: 'failed',
  cancelled: 'cancelled',
};

/** Jobs of pg-boss, written in the commit that makes their submission known: both are there, or neither. */
export function pgBossQueue(options: PgBossQueueOptions): TransactionalQueue<BossClient> {
  const { boss, queue, pool, retryLimit } = options;
  // Version 9 has queues without making them, and finds a job by its id alone.
  if (typeof boss.createQueue !== 'function') {
    throw new OncewardError(
      'ONCE_INVALID_CONFIG',
      'boss has no createQueue, so it is of pg-boss 9 or older; install pg-boss 10, 11 or 12',
    );
  }
  const send = async (job: QueuedJob, db?: BossDb) => {
    const { tenant, derivedKey } = job;
    const data = { tenant, derivedKey, payload: JSON.parse(job.payload) as unknown };
    await boss.send(queue, data, {
      id: job.jobId,
      ...(retryLimit === undefined ? {} : { retryLimit }),
      ...(db === undefined ? {} : { db }),
    });
  };
  return {
    name: `pg-boss:${queue}`,
    transact: (work) => inTransaction(pool, work),
    enqueue: (job) => send(job),
    enqueueWithin: (client, job) =>
      send(job, { executeSql: (text, values) => client.query(text, values) }),
    async find(jobId): Promise<QueuedJobView | null> {
      const job = await boss.getJobById(queue, jobId);
      return job === null ? null : viewOf(job);
    },
    async cancel(jobId) {
      const job = await boss.getJobById(queue, jobId);
      if (job === null || (job.state !== 'created' && job.state !== 'retry')) return false;
      await boss.cancel(queue, jobId);
      return true;
    },
  };
}

function viewOf(job: BossJob): QueuedJobView {
  const state = STATES[job.state] ?? 'queued';
  const hasFailed = state === 'failed';
  return {
    state,
    attempts: job.startedOn === null ? 0 : job.retryCount + 1,
    result: state === 'succeeded' ? (job.output ?? null) : null,
    error: hasFailed ? messageOf(job.output) : null,
  };
}

function messageOf(output: unknown): string {
  const { message } = (output ?? {}) as { message?: unknown };
  return typeof message === 'string' ? message : JSON.stringify(output);
}

async function inTransaction<T>(
  pool: BossPool,
  work: (client: BossClient) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  let isSound = false;
  try {
    await client.query('begin');
    const value = await work(client).catch(async (error: unknown) => {
      await client.query('rollback');
      isSound = true;
      throw error;
    });
    await client.query('commit');
    isSound = true;
    return value;
  } finally {
    // A connection that broke in the middle is not given to anyone else.
    client.release(!isSound);
  }
}
