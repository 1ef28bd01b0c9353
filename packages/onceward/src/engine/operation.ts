import type { ErrorCode, Retry } from './errors.ts';
import type { EffectKind, Policy } from './policy.ts';
import type { OperationId, Outcome, Revision, SettledState, Step } from './record.ts';
import type { DurationMs, EpochMs } from './units.ts';

/** One thing a caller wants done once. */
export interface Operation {
  readonly id: OperationId;
  /** What is asked for, condensed. The same key with another fingerprint is refused. */
  readonly fingerprint: string;
  readonly effect: EffectKind;
  readonly policy: Policy;
  /** Known before the first attempt and written with its claim; every later attempt finds them as steps done. */
  readonly firstSteps?: readonly Step[];
  /** The record that the caller has placed for this operation and believes to be there still. Saves a read. */
  readonly placed?: PlacedRecord;
  /** `false`: nobody will ask for the answer again soon, so it takes no room in the near tier. */
  readonly remember?: boolean;
  /**
   * When the caller first sent it, by its own clock. An absent key that is older than its window may have been
   * forgotten: it is refused as expired and does not run.
   */
  readonly firstSentAt?: EpochMs;
  /** Asked when the outcome is in doubt. */
  readonly probe?: Probe;
  /** When it is aborted before the effect began, the effect does not begin. */
  readonly signal?: AbortSignal;
}

/** Work that nobody has attempted yet, as it was written. */
export interface PlacedRecord {
  readonly revision: Revision;
  readonly steps: readonly Step[];
}

/** Finds out, at the place where the effect lands, whether it happened. Reads only. */
export type Probe = (about: DoubtfulAttempt) => Promise<ProbeAnswer>;

export interface DoubtfulAttempt {
  readonly id: OperationId;
  readonly attempt: number;
  readonly fence: Revision;
  /** The key that a `downstream` target was given. */
  readonly downstreamKey: string;
}

export type ProbeAnswer =
  | { readonly found: SettledState; readonly outcome: Outcome }
  /** It did not happen and cannot happen any more: the operation may run. */
  | { readonly found: 'nothing' }
  | { readonly found: 'unknown' };

/** What the effect is given. */
export interface Attempt {
  readonly id: OperationId;
  /** 1 for the first run, more when an earlier attempt was lost. */
  readonly number: number;
  /** Rises with every attempt. Give it to anything that can refuse a lower one. */
  readonly fence: Revision;
  /** Aborted when another attempt has taken over. */
  readonly signal: AbortSignal;
  /** The same for every attempt of this operation, and for no other operation. */
  readonly downstreamKey: string;
  /** Runs `work` unless an earlier attempt finished a step of this name; then gives its result. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>;
}

export type Effect = (attempt: Attempt) => Promise<Settlement>;

/** How an effect ended. */
export type Settlement =
  | { readonly as: SettledState; readonly outcome: Outcome }
  /**
   * Nothing worth keeping happened: the next arrival may run. `mayHaveActed`: something may have, and the key stays
   * bound to this request where the effect is safe to repeat.
   */
  | { readonly as: 'released'; readonly mayHaveActed?: boolean }
  /** It is not known whether the effect happened. */
  | { readonly as: 'in_doubt' };

/** What came of an arrival. Losing, waiting in vain and being refused are results, not exceptions. */
export type Execution =
  | {
      readonly kind: 'executed';
      readonly settlement: Settlement;
      readonly attempt: number;
      readonly fence: Revision;
      /** False: the effect ran, but its record could not be written (yet). */
      readonly recorded: boolean;
      /** Until when retries get this answer; `null` where it is not kept. */
      readonly keptUntil: EpochMs | null;
    }
  | {
      readonly kind: 'replayed';
      readonly state: SettledState;
      readonly outcome: Outcome;
      readonly attempt: number;
      readonly settledAt: EpochMs;
      readonly keptUntil: EpochMs;
      /**
       * How often this process has given this answer again since it last learnt it, this time included: 1 for the
       * first. Another process, or this one after a restart, counts for itself.
       */
      readonly replayCount: number;
      /** Names the run that is replayed, for links between traces. */
      readonly owner: string;
    }
  | Refusal;

export interface Refusal {
  readonly kind: 'refused';
  readonly reason: RefusalReason;
  readonly retry: Retry;
  readonly retryAfterMs?: DurationMs;
  readonly cause?: unknown;
}

export type RefusalReason =
  | 'mismatch'
  | 'in_progress'
  | 'in_doubt'
  /** The key is absent, and was first sent so long ago that it may have been forgotten. */
  | 'expired'
  | 'over_quota'
  | 'deadline'
  | 'fence_lost'
  /** The commit of a transaction was not answered: the same key tells what became of it. */
  | 'outcome_unknown'
  /** The transaction was undone by a fault of the work itself, such as a violated constraint. */
  | 'rolled_back'
  | 'store_unavailable';

export const REFUSAL_CODES = {
  mismatch: 'ONCE_MISMATCH',
  in_progress: 'ONCE_IN_PROGRESS',
  in_doubt: 'ONCE_IN_DOUBT',
  expired: 'ONCE_EXPIRED',
  over_quota: 'ONCE_OVER_QUOTA',
  deadline: 'ONCE_DEADLINE',
  fence_lost: 'ONCE_FENCE_LOST',
  outcome_unknown: 'ONCE_IN_DOUBT',
  rolled_back: 'ONCE_ROLLED_BACK',
  store_unavailable: 'ONCE_STORE_UNAVAILABLE',
} as const satisfies Record<RefusalReason, ErrorCode>;
