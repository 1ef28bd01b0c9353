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
export type { Queued } from './enqueue.ts';
export type { FailedOperations } from './failed-operations.ts';
export { exportFailed, type ImportReport, importFailed } from './failed-transfer.ts';
export { literal } from './fill-in.ts';
export { type GroupStep, type Groups, groups } from './groups.ts';
export { RETENTION_DEFAULTS, type Retention } from './housekeeping.ts';
export {
  type IdempotentFetch,
  type IdempotentFetchOptions,
  type IdempotentInit,
  idempotentFetch,
  type ReplayInfo,
  replayInfo,
} from './idempotent-fetch.ts';
export { type LeaseLockOptions, leaseLock } from './lease-lock.ts';
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
} from './operation.ts';
export {
  type AbandonResult,
  type CancelResult,
  type EditResult,
  type EnqueueOptions,
  Outbox,
  type OutboxOptions,
} from './outbox.ts';
export {
  type Bulletin,
  broadcastBulletin,
  type Notice,
  type OutboxEvent,
  type PauseReason,
  silentBulletin,
} from './outbox-events.ts';
export type { OutboxStatus, StatusStore } from './outbox-status.ts';
export type { Change, Entry, OutboxStorage, RangedEntry, RangeQuery } from './outbox-storage.ts';
export type { OutboxRequest } from './request-intake.ts';
export { RETRY_DEFAULTS, type RetryPolicy } from './retry-policy.ts';
export { noLock, type RunnerLock, webLock } from './runner-lock.ts';
export type { OutboxAuth, RedirectedAnswer } from './sender.ts';
export { indexedDbStorage } from './storages/indexed-db.ts';
export { memoryStorage } from './storages/memory.ts';
export { openSnapshotStorage, type SnapshotPlace } from './storages/snapshot.ts';
export { answerOf } from './typed-answer.ts';
export { judgeAnswer, judgeFailure, type Verdict } from './verdict.ts';
export { type Wiped, wipe } from './wipe.ts';
