import type { EpochMs } from './units.ts';

/** Names one operation: whose it is, and which. Both are opaque to the engine. */
export interface OperationId {
  readonly scope: string;
  readonly key: string;
}

/**
 * Minted by the store at every successful swap. Rises for ever, also across restarts and after a record was
 * forgotten, and is never issued twice. A safe integer (below 2^53), at least 1.
 */
export type Revision = number;

export type RecordState = 'pending' | 'committed' | 'rejected' | 'in_doubt';

export type SettledState = 'committed' | 'rejected';

/** What becomes of a claim whose lease lapsed: run again, or stop and ask. */
export type OnLapse = 'take_over' | 'in_doubt';

/** What the effect answered, as bytes with a label that the door understands. */
export interface Outcome {
  /** What the bytes are: a media type, or a door's own tag. */
  readonly contentType: string;
  readonly bytes: Uint8Array;
}

/** The label of an outcome that was too large to keep: the effect happened, its answer is gone. */
export const NOT_RETAINED = 'application/vnd.onceward.not-retained';

/** An outcome as a record keeps it: packed by a codec when that saves room. */
export interface KeptOutcome {
  readonly contentType: string;
  /** 0: as it is. Other numbers name a codec of the platform. */
  readonly codec: number;
  /** Length of the bytes once unpacked. */
  readonly size: number;
  readonly bytes: Uint8Array;
}

/** One finished part of an operation, so that an attempt that takes over can skip it. */
export interface Step {
  readonly name: string;
  readonly bytes: Uint8Array;
}

interface RecordBase {
  readonly fingerprint: string;
  /** Names the attempt that wrote this record. After a lost reply it distinguishes our own write from another's. */
  readonly owner: string;
  /** 1 for the first run, one more for each takeover. */
  readonly attempt: number;
  readonly createdAt: EpochMs;
  readonly steps: readonly Step[];
}

export interface PendingRecord extends RecordBase {
  readonly state: 'pending';
  /** 0 in the write that claims (its own revision is the fence); afterwards the revision of that claim. */
  readonly fence: Revision;
  /** 0 says released: the attempt ended without an outcome. The request and finished steps are kept. */
  readonly leaseUntil: EpochMs;
  readonly onLapse: OnLapse;
  /** How long a lapsed claim that may be taken over is kept for someone to do so. */
  readonly keepUntil: EpochMs;
}

export interface SettledRecord extends RecordBase {
  readonly state: SettledState;
  readonly fence: Revision;
  readonly outcome: KeptOutcome;
  readonly settledAt: EpochMs;
  readonly keepUntil: EpochMs;
  /** Set when it was not the attempt itself that settled: who did, and why. */
  readonly resolution: Resolution | null;
}

export interface InDoubtRecord extends RecordBase {
  readonly state: 'in_doubt';
  readonly fence: Revision;
  readonly reason: DoubtReason;
  readonly since: EpochMs;
}

export type OperationRecord = PendingRecord | SettledRecord | InDoubtRecord;

export type DoubtReason = 'lease_lapsed' | 'effect_threw' | 'unreadable' | 'outcome_unknown';

export interface Resolution {
  readonly by: string;
  readonly reason: string;
}

/** When the sweeper should visit a record: its lease end, its retention end, or never. */
export function dueAt(record: OperationRecord): EpochMs | null {
  switch (record.state) {
    case 'in_doubt':
      return null;
    case 'pending':
      return record.onLapse === 'in_doubt' && record.leaseUntil > 0
        ? record.leaseUntil
        : record.keepUntil;
    default:
      return record.keepUntil;
  }
}
