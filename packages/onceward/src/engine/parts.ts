import type { Audit, Observe } from './events.ts';
import type { NearTier } from './near/near-tier.ts';
import type { Platform } from './platform.ts';
import type { OperationId } from './record.ts';
import type { RecordStore } from './record-store.ts';
import type { EngineClock } from './store-access/engine-clock.ts';
import type { LateWork } from './store-access/late-work.ts';
import type { TimerLines } from './store-access/timer-lines.ts';
import type { World } from './world.ts';

/** What the pieces of one engine share. */
export interface EngineParts {
  readonly store: RecordStore;
  readonly world: World;
  readonly platform: Platform;
  readonly near: NearTier;
  readonly timers: TimerLines;
  readonly clock: EngineClock;
  readonly late: LateWork;
  /** Claims to take back. Apart, since they stay open for a lease: a settle must not lose its place to them. */
  readonly abandoned: LateWork;
  /** Aborted when the engine is closed: background work ends after the step it is at. */
  readonly closing: AbortSignal;
  readonly observe: Observe;
  readonly audit: Audit;
  /** A new name for an attempt, never given before by any engine. */
  nextOwner(): string;
  /** The same for every attempt of an operation, and for no other operation. */
  downstreamKey(id: OperationId): string;
}
