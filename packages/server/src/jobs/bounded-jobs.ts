import {
  type Answer,
  type CancelResult,
  type JobList,
  type JobQuery,
  type JobsPort,
  type JobView,
  refused,
  runId,
  type Submission,
  submissionId,
} from 'onceward/jobs';
import type { Quota } from '../quota/quota.ts';

/** A manager that takes in no more jobs of a tenant than its quota. Duplicates of what it has are answered as ever. */
export class BoundedJobs implements JobsPort {
  readonly #jobs: JobsPort;
  readonly #quota: Quota;

  constructor(jobs: JobsPort, quota: Quota) {
    this.#jobs = jobs;
    this.#quota = quota;
  }

  async submit(submission: Submission, waitMs?: number): Promise<Answer> {
    const { tenant, key } = submission;
    const full = () => this.#quota.fullForJob(runId(tenant, key));
    if (full() !== null) {
      const problem = await this.#quota.refusal(submissionId(tenant, key), full);
      if (problem !== null) {
        const { message: detail, retryAfterSeconds = 1 } = problem;
        return refused('over_quota', { detail, retryAfterMs: retryAfterSeconds * 1_000 });
      }
    }
    // Until its id is known, a new job is counted under its key.
    const submit = () => this.#jobs.submit(submission, waitMs);
    const answer = await this.#quota.during(runId(tenant, key), submit, () => false);
    if (answer.status === 'committed' && !answer.wasDuplicate) {
      this.#quota.add(runId(tenant, answer.jobId));
    }
    return answer;
  }

  find(tenant: string, jobId: string): Promise<JobView | null> {
    return this.#jobs.find(tenant, jobId);
  }

  list(query: JobQuery): Promise<JobList> {
    return this.#jobs.list(query);
  }

  cancel(tenant: string, jobId: string): Promise<CancelResult> {
    return this.#jobs.cancel(tenant, jobId);
  }
}
