import type { DurationMs } from '../../engine/units.ts';
import type { CancelResult, JobList, JobQuery, JobView } from '../jobs-port.ts';
import type { Answer, Submission } from '../submission.ts';
import type { JobWindows } from '../windows.ts';

/**
 * What gates and managers say to each other. Bodies are JSON and signed; who has the secret is trusted to name the
 * tenant.
 *
 * Submissions travel together: all that were queued while the last ones were in flight. The answers come back one a
 * line, each as soon as it is known, and an empty line every second is the manager's heartbeat.
 */
export const SUBMISSIONS_PATH = '/v1/jobs-manager/submissions';
export const CALLS_PATH = '/v1/jobs-manager/calls';
export const LINES_TYPE = 'application/x-ndjson';
export const PULSE_MS: DurationMs = 1_000;
export const MOST_IN_BATCH = 256;

export interface SubmissionBatch {
  /** The version of the table by which the sender found the home of these tenants; `null` within a data centre. */
  readonly homes: number | null;
  readonly submissions: readonly (readonly [Submission, DurationMs])[];
}

/** One line of the answer: which submission of the batch, and what became of it. */
export type AnswerLine = readonly [number, Answer];

export type ManagerCall =
  | { readonly call: 'windows' }
  | { readonly call: 'find'; readonly tenant: string; readonly jobId: string }
  | { readonly call: 'list'; readonly query: JobQuery }
  | { readonly call: 'cancel'; readonly tenant: string; readonly jobId: string };

export interface CallAnswers {
  readonly windows: JobWindows;
  readonly find: JobView | null;
  readonly list: JobList;
  readonly cancel: CancelResult;
}
