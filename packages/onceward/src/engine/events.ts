import type { OperationId, SettledState } from './record.ts';
import type { DurationMs, EpochMs } from './units.ts';

/** What the engine emits. Names are stable: metrics, logs and traces hang on them. */
export type EngineEvent =
  | { readonly type: 'claimed'; readonly id: OperationId; readonly attempt: number }
  | {
      readonly type: 'settled';
      readonly id: OperationId;
      readonly state: SettledState;
      readonly attempt: number;
    }
  | {
      readonly type: 'replayed';
      readonly id: OperationId;
      readonly near: boolean;
      readonly state: SettledState;
      /** When the answer was settled, where that is known. */
      readonly settledAt?: EpochMs;
    }
  | { readonly type: 'mismatch'; readonly id: OperationId }
  | { readonly type: 'expired'; readonly id: OperationId }
  | { readonly type: 'waited'; readonly id: OperationId; readonly waitedMs: DurationMs }
  | { readonly type: 'in_progress'; readonly id: OperationId; readonly waitedMs: DurationMs }
  | { readonly type: 'released'; readonly id: OperationId }
  | { readonly type: 'in_doubt'; readonly id: OperationId; readonly reason: string }
  | { readonly type: 'doubt_resolved'; readonly id: OperationId; readonly by: string }
  | { readonly type: 'refused_in_doubt'; readonly id: OperationId }
  | { readonly type: 'fence_lost'; readonly id: OperationId; readonly attempt: number }
  | { readonly type: 'over_quota'; readonly id: OperationId }
  | { readonly type: 'deadline'; readonly id: OperationId }
  | { readonly type: 'unprotected'; readonly id: OperationId }
  | { readonly type: 'unrecorded'; readonly id: OperationId }
  | { readonly type: 'late_settle_dropped'; readonly id: OperationId }
  | { readonly type: 'unreadable'; readonly id: OperationId }
  | {
      readonly type: 'store_error';
      readonly phase: StorePhase;
      readonly error: unknown;
    }
  /** This process's wall clock against the store's. 0 ends a disagreement that was emitted before. */
  | { readonly type: 'clock_skew'; readonly aheadMs: number }
  | { readonly type: 'swept'; readonly forgotten: number; readonly stale: number };

export type StorePhase = 'claim' | 'read' | 'renew' | 'settle' | 'release' | 'doubt' | 'sweep';

export type Observe = (event: EngineEvent) => void;

/** One line of who changed a record from outside its attempt. Written before the change is made. */
export interface AuditLine {
  readonly at: EpochMs;
  readonly action: 'resolve' | 'purge' | 'extend' | 'late_commit';
  readonly scope: string;
  readonly key: string;
  readonly by: string;
  readonly reason: string;
  readonly from: string;
  readonly to: string;
}

export type Audit = (line: AuditLine) => Promise<void>;
