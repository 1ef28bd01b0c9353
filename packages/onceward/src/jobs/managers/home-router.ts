import { OncewardError } from '../../engine/errors.ts';
import { type DurationMs, SECOND } from '../../engine/units.ts';
import type { CancelResult, JobList, JobQuery, JobsPort, JobView } from '../jobs-port.ts';
import { type Answer, type RefusedSubmission, refused, type Submission } from '../submission.ts';
import { type HomeTable, homeOf } from './home-table.ts';

export interface HomeRouterOptions {
  /** The data centre that this process is in. */
  readonly here: string;
  readonly table: () => HomeTable;
  readonly local: JobsPort;
  /** The managers of every other data centre. */
  readonly away: ReadonlyMap<string, JobsPort>;
}

const RETRY_MS = 2 * SECOND;

/**
 * Sends each submission to the data centre where its tenant is at home. When that one cannot be reached nothing is run
 * anywhere: the caller has to retry, because a second home would be a second job.
 */
export class HomeRouter implements JobsPort {
  readonly #options: HomeRouterOptions;

  constructor(options: HomeRouterOptions) {
    this.#options = options;
  }

  async submit(submission: Submission, waitMs?: DurationMs): Promise<Answer> {
    const home = this.#homeOf(submission.tenant);
    if (home === null) return unreachable('the tenant is being moved between data centres');
    if (home === this.#options.here) return this.#options.local.submit(submission, waitMs);
    const port = this.#options.away.get(home);
    if (port === undefined) return unreachable(`no way to the data centre ${home} is known`);
    try {
      const answer = await port.submit(submission, waitMs);
      return isUnavailable(answer) ? unreachable(answer.detail ?? cutOff(home)) : answer;
    } catch {
      return unreachable(cutOff(home));
    }
  }

  find(tenant: string, jobId: string): Promise<JobView | null> {
    return this.#portOf(tenant).find(tenant, jobId);
  }

  list(query: JobQuery): Promise<JobList> {
    const { tenant } = query;
    return (tenant === null ? this.#options.local : this.#portOf(tenant)).list(query);
  }

  cancel(tenant: string, jobId: string): Promise<CancelResult> {
    return this.#portOf(tenant).cancel(tenant, jobId);
  }

  /** For the manager's side: why a submission that was sent here is not at home here. */
  readonly refuseHome = (tenant: string, version: number): RefusedSubmission | null => {
    const table = this.#options.table();
    if (version !== table.version) {
      const detail = `the table of homes has version ${version} there and ${table.version} here`;
      return unreachable(detail);
    }
    return homeOf(table, tenant) === this.#options.here
      ? null
      : unreachable('this data centre is not the home of the tenant');
  };

  #homeOf(tenant: string): string | null {
    return homeOf(this.#options.table(), tenant);
  }

  #portOf(tenant: string): JobsPort {
    const home = this.#homeOf(tenant);
    const port =
      home === this.#options.here ? this.#options.local : this.#options.away.get(home ?? '');
    if (port !== undefined) return port;
    throw new OncewardError('ONCE_STORE_UNAVAILABLE', cutOff(home ?? 'of this tenant'), {
      retryAfterMs: RETRY_MS,
    });
  }
}

function cutOff(home: string): string {
  return `the data centre ${home}, where this tenant's keys are decided, cannot be reached`;
}

function unreachable(detail: string): RefusedSubmission {
  return refused('unavailable', { retryAfterMs: RETRY_MS, detail });
}

function isUnavailable(answer: Answer): answer is RefusedSubmission {
  return answer.status === 'refused' && answer.why === 'unavailable';
}
