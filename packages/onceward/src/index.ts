export {
  Engine,
  type EngineOptions,
  type ListQuery,
  type RecordView,
} from './engine/engine.ts';
export {
  ERRORS,
  type ErrorCode,
  OncewardError,
  type Retry,
  StoreError,
} from './engine/errors.ts';
export type { Audit, AuditLine, EngineEvent, Observe } from './engine/events.ts';
export { LIMITS } from './engine/input.ts';
export { nearestName } from './engine/known-options.ts';
export type { NearTierOptions } from './engine/near/near-tier.ts';
export type { OnceEffect, OnceOptions, OnceResult } from './engine/once.ts';
export type { Actor, ChangeResult, Verdict } from './engine/operate/resolve.ts';
export type { SweepOptions, SweepResult } from './engine/operate/sweep.ts';
export type {
  Attempt,
  Effect,
  Execution,
  Operation,
  PlacedRecord,
  Probe,
  ProbeAnswer,
  Refusal,
  RefusalReason,
  Settlement,
} from './engine/operation.ts';
export type { OutcomeCodec, Platform } from './engine/platform.ts';
export type { EffectKind, Policy } from './engine/policy.ts';
export { type ProfileName, profiles } from './engine/profiles.ts';
export { type Current, type Decision, decide, type Time } from './engine/record/decide.ts';
export {
  NOT_RETAINED,
  type OnLapse,
  type OperationId,
  type OperationRecord,
  type Outcome,
  type RecordState,
  type Revision,
  type Step,
} from './engine/record.ts';
export type {
  NextRecord,
  RecordStore,
  ScannedRecord,
  ScanQuery,
  StoreCount,
  StoredRecord,
  StoreTraits,
  SwapResult,
  TransactionalStore,
} from './engine/record-store.ts';
export { OutcomeUnknown } from './engine/run/attempt.ts';
export type { DoneWork, Placed, Work } from './engine/run/placement.ts';
export type { FencedChange, FencedResult, ReserveResult } from './engine/run/reservation.ts';
export type { Transact, TransactionEffect } from './engine/run/transaction.ts';
export type { World } from './engine/world.ts';
export { createOnceward, type OncewardOptions } from './onceward.ts';
export { engineOf } from './runtime/engine-of.ts';
export { nodePlatform } from './runtime/node-platform.ts';
export { nodeWorld } from './runtime/node-world.ts';
