export { builtInTypes } from './built-in-types.ts';
export { Gate, type GateOptions } from './gate.ts';
export {
  defineJob,
  type ForwardedJob,
  type HandledJob,
  type JobContext,
  JobFailed,
  type JobQueue,
  type JobType,
  type QueuedJob,
  type QueuedJobView,
  type Rerun,
  type TransactionalQueue,
} from './job-type.ts';
export {
  type CancelResult,
  JOB_STATES,
  type JobList,
  type JobQuery,
  type JobState,
  type JobsPort,
  type JobView,
} from './jobs-port.ts';
export { JobManager, type JobManagerOptions, type Reservation } from './manager.ts';
export {
  type Answer,
  type RefusedSubmission,
  type RefusedWhy,
  type Submission,
  type SubmissionParts,
  submissionOf,
} from './submission.ts';
export { checkGateWindows, type JobWindows, jobWindows } from './windows.ts';
