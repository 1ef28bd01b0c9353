export {
  deriveKey,
  type JobKeys,
  jobKeys,
  type KeyMaterial,
  mintUlid,
  mintUuid,
  VOLATILE_FIELDS,
} from '../keys/index.ts';
export { BREAKER_DEFAULTS, type BreakerPolicy } from './circuit-breaker.ts';
export { CLIENT_ERRORS, ClientError, type ClientErrorCode } from './client-error.ts';
export { type ClientTimer, type ClientWorld, realWorld } from './client-world.ts';
export { alwaysOnline, browserConnectivity, type Connectivity } from './connectivity.ts';
export {
  type IdempotentFetch,
  type IdempotentFetchOptions,
  type IdempotentInit,
  idempotentFetch,
  type ReplayInfo,
  replayInfo,
} from './idempotent-fetch.ts';
export type { Queued } from './outbox/enqueue.ts';
export type { FailedOperations } from './outbox/failed-operations.ts';
export { exportFailed, type ImportReport, importFailed } from './outbox/failed-transfer.ts';
export { literal } from './outbox/fill-in.ts';
export { type GroupStep, type Groups, groups } from './outbox/groups.ts';
export { RETENTION_DEFAULTS, type Retention } from './outbox/housekeeping.ts';
export { type LeaseLockOptions, leaseLock } from './outbox/lease-lock.ts';
export type {
  DoneOperation,
  FailedOperation,
  FailureCode,
  FailureOutcome,
  Operation,
  Step,
  StoredAnswer,
  StoredRequest,
  WaitingOperation,
} from './outbox/operation.ts';
export {
  type AbandonResult,
  type CancelResult,
  type EditResult,
  type EnqueueOptions,
  Outbox,
  type OutboxOptions,
} from './outbox/outbox.ts';
export {
  type Bulletin,
  broadcastBulletin,
  type Notice,
  type OutboxEvent,
  type PauseReason,
  silentBulletin,
} from './outbox/outbox-events.ts';
export type { OutboxStatus, StatusStore } from './outbox/outbox-status.ts';
export type { OutboxRequest } from './outbox/request-intake.ts';
export { noLock, type RunnerLock, webLock } from './outbox/runner-lock.ts';
export type { OutboxAuth, RedirectedAnswer } from './outbox/sender.ts';
export { answerOf } from './outbox/typed-answer.ts';
export { type Wiped, wipe } from './outbox/wipe.ts';
export { RETRY_DEFAULTS, type RetryPolicy } from './retry-policy.ts';
export { indexedDbStorage } from './storages/indexed-db.ts';
export { memoryStorage } from './storages/memory.ts';
export type {
  Change,
  Entry,
  OutboxStorage,
  RangedEntry,
  RangeQuery,
} from './storages/outbox-storage.ts';
export { openSnapshotStorage, type SnapshotPlace } from './storages/snapshot.ts';
export { judgeAnswer, judgeFailure, type Verdict } from './verdict.ts';
