import { OncewardError } from '../engine/errors.ts';
import type { Policy } from '../engine/policy.ts';
import { profiles } from '../engine/profiles.ts';
import { type DurationMs, MINUTE, SECOND } from '../engine/units.ts';

/** How long a key is held in which state, and how much a gate holds. */
export interface JobWindows {
  /** A submission that is being taken in is trusted to be alive for this long without a heartbeat. */
  readonly pendingMs: DurationMs;
  readonly committedMs: DurationMs;
  readonly rejectedMs: DurationMs;
  /** Entries of a gate: so many pending, and so many answered. */
  readonly maxEntries: number;
  readonly cleanupMs: DurationMs;
  /** How long a duplicate waits for the first to be answered; 0 refuses it at once. */
  readonly waitMs: DurationMs;
}

export const jobWindows: JobWindows = {
  pendingMs: MINUTE,
  committedMs: 5 * MINUTE,
  rejectedMs: MINUTE,
  maxEntries: 100_000,
  cleanupMs: 10 * SECOND,
  waitMs: 30 * SECOND,
};

/** The engine's policy for submissions. */
export function submissionPolicy(windows: JobWindows): Policy {
  return {
    ...profiles.jobs,
    leaseMs: windows.pendingMs,
    waitMs: windows.waitMs,
    keepCommittedMs: windows.committedMs,
    keepRejectedMs: windows.rejectedMs,
  };
}

const COMPARED = [
  ['committedMs', 'IDEMPOTENCY_COMMITTED_TTL_SECONDS'],
  ['rejectedMs', 'IDEMPOTENCY_REJECTED_TTL_SECONDS'],
  ['pendingMs', 'IDEMPOTENCY_PENDING_TTL_SECONDS'],
] as const;

/**
 * A gate that remembered longer than its manager would call a key a duplicate at one door while another door starts
 * the job again. So the manager's windows must be at least as long.
 */
export function checkGateWindows(gate: JobWindows, manager: Omit<JobWindows, 'maxEntries'>): void {
  for (const [field, name] of COMPARED) {
    if (gate[field] <= manager[field]) continue;
    throw new OncewardError(
      'ONCE_INVALID_CONFIG',
      `${name} is ${gate[field] / SECOND} at the gate and ${manager[field] / SECOND} at the manager; the manager's must be at least as long`,
    );
  }
}
