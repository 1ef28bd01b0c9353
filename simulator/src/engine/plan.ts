import type { EffectKind, NearTierOptions, OperationId, Policy } from 'onceward';

/**
 * Everything that is decided about a world before it begins. The list of events is all that makes a seed hard: it is
 * what gets shorter when a failure is shrunk.
 */
export interface Plan {
  readonly seed: number;
  readonly store: StorePlan;
  readonly processes: readonly ProcessPlan[];
  readonly operations: readonly OperationPlan[];
  readonly events: readonly PlannedEvent[];
  /** From here on nothing fails any more. */
  readonly healAt: number;
}

export interface StorePlan {
  /** One process and its own store, whose claims do not outlive the process; else a store that all share. */
  readonly embedded: boolean;
  readonly wakesWaiters: boolean;
  readonly forgetsDue: boolean;
  /** It has no index of what is due: a sweeper reads a few records at a time and goes on from there. */
  readonly scansShares: boolean;
  /** It can be asked for the time, which is right. Then the clocks of the processes may be far off from the start. */
  readonly hasClock: boolean;
  readonly latencyMs: number;
  readonly maxRecordBytes: number;
}

export interface ProcessPlan {
  readonly near: NearTierOptions;
  readonly sweepEveryMs: number | null;
  readonly skewMs: number;
}

/** How callers reach an operation: by `execute`, by `once`, by reservation from afar, or in a transaction. */
export type Style = 'execute' | 'once' | 'reserve' | 'mixed' | 'transaction';

export interface OperationPlan {
  readonly index: number;
  readonly id: OperationId;
  readonly style: Style;
  readonly effect: EffectKind;
  readonly policy: Policy;
}

export interface EffectScript {
  /** How long until it happens, and how long from there to its answer. */
  readonly beforeMs: number;
  readonly afterMs: number;
  /** It is on its way before it happens: the death of its process does not stop it. */
  readonly detached: boolean;
  readonly ending: Ending;
  readonly steps: number;
  readonly outcomeBytes: number;
}

export type Ending =
  | 'commit'
  | 'reject'
  /** Nothing happened, and the effect says so. */
  | 'release'
  | 'throw_before'
  | 'throw_after'
  /** It throws `OutcomeUnknown`, after it happened or without having happened. */
  | 'unknown_after'
  | 'unknown_before'
  | 'doubt';

export interface Arrival {
  readonly kind: 'arrive';
  readonly at: number;
  readonly process: number;
  readonly operation: number;
  readonly fingerprint: string;
  /** What a caller of `once` asks for; its fingerprint is made of it. */
  readonly input?: string;
  readonly via: 'execute' | 'once' | 'reserve' | 'transaction';
  readonly script: EffectScript;
  readonly waitMs: number;
  readonly probe: boolean;
  /** The caller gives up after this long; the effect must not begin thereafter. */
  readonly abortAfterMs: number | null;
  /** For reservations: renews this often, finishes through that process, or vanishes without a word. */
  readonly renewEveryMs: number | null;
  readonly finishAt: number;
  readonly vanishes: boolean;
}

export type StoreFault =
  /** The write was made, its reply was not. */
  | { readonly as: 'lost_reply'; readonly silent: boolean }
  | { readonly as: 'lost_request'; readonly silent: boolean }
  /** It is made after the caller got, or concluded, its failure. */
  | { readonly as: 'late'; readonly silent: boolean; readonly byMs: number }
  /** Sent twice, as drivers do when they reconnect: it is the second time that is answered. */
  | { readonly as: 'repeated'; readonly byMs: number }
  | { readonly as: 'slow'; readonly byMs: number }
  | { readonly as: 'refused' }
  /** Nothing is done, and what comes back is no answer: a rejection that is no error, or a claim lost to nobody. */
  | { readonly as: 'nonsense'; readonly rejects: boolean };

/** The connection of a transaction falls silent for good. */
export interface Silence {
  /** From this statement on; 0: there is no connection, and the driver says so in words of its own. */
  readonly statement: number;
  /** What is sent still arrives. */
  readonly delivered: boolean;
}

export type PlannedEvent =
  | Arrival
  | {
      readonly kind: 'store_fault';
      readonly process: number;
      /** Which call of the process to the store, counted over all its lives. */
      readonly call: number;
      readonly fault: StoreFault;
    }
  | {
      readonly kind: 'outage';
      readonly at: number;
      readonly forMs: number;
      readonly process: number | null;
      readonly fault: StoreFault;
    }
  | {
      readonly kind: 'crash';
      readonly at: number;
      readonly process: number;
      readonly downMs: number;
      /** The engine is closed first, with this much time to finish what it can. */
      readonly graceMs: number | null;
      /** It comes back with a wall clock that is so far off. */
      readonly clockOffMs?: number;
    }
  | {
      /** Transactions in a row on the store's own file, as a busy caller of SQLite makes them. */
      readonly kind: 'burst';
      readonly at: number;
      readonly process: number;
      readonly transactions: number;
      readonly eachMs: number;
    }
  | {
      readonly kind: 'silence';
      readonly process: number;
      /** Which transaction of the process, counted over all its lives. */
      readonly transaction: number;
      readonly silence: Silence;
    }
  | {
      readonly kind: 'crash_point';
      readonly process: number;
      /** Which crash point that the process passes, counted over all its lives. */
      readonly pass: number;
      readonly downMs: number;
    }
  | {
      readonly kind: 'pause';
      readonly at: number;
      readonly process: number;
      readonly forMs: number;
      /** A suspended machine: not even the steady clock went on. */
      readonly steadyStops: boolean;
    }
  | {
      readonly kind: 'clock_jump';
      readonly at: number;
      readonly process: number;
      readonly byMs: number;
    }
  | {
      readonly kind: 'corrupt';
      readonly at: number;
      readonly operation: number;
      readonly how: 'flip' | 'cut' | 'newer_schema';
    }
  | {
      readonly kind: 'operator';
      readonly at: number;
      readonly process: number;
      readonly operation: number;
      readonly action: 'resolve' | 'purge' | 'extend';
      /** Resolves without a check. What happens then is the operator's doing. */
      readonly careless: boolean;
      readonly keepMs: number;
    };
