export { builtInTypes } from './built-in-types.ts';
export { Gate, type GateOptions } from './gate.ts';
export { type HttpWorkerOptions, httpWorker } from './http-worker.ts';
export { isRun, runId, submissionId } from './job-record.ts';
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
export { type DataCentreView, GlobalView, type GlobalViewOptions } from './managers/global-view.ts';
export { HomeRouter, type HomeRouterOptions } from './managers/home-router.ts';
export { checkHomeTable, type HomeTable, homeOf } from './managers/home-table.ts';
export { JobManager, type JobManagerOptions, type Reservation } from './managers/manager.ts';
export { ManagerEndpoint, type ManagerEndpointOptions } from './managers/manager-endpoint.ts';
export { LinkDown, ManagerLink, type ManagerLinkOptions } from './managers/manager-link.ts';
export { ManagerPool, type ManagerPoolOptions } from './managers/manager-pool.ts';
export { CALLS_PATH, LINES_TYPE, PULSE_MS, SUBMISSIONS_PATH } from './managers/manager-protocol.ts';
export { digestOf, isSigned, SIGNATURE_HEADER, signBody } from './signature.ts';
export {
  type Answer,
  type RefusedSubmission,
  type RefusedWhy,
  refused,
  type Submission,
  type SubmissionParts,
  submissionOf,
} from './submission.ts';
export { checkGateWindows, type JobWindows, jobWindows } from './windows.ts';
