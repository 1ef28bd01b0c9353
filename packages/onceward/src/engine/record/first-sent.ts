import type { Policy } from '../policy.ts';
import { type DurationMs, type EpochMs, MINUTE } from '../units.ts';
import type { Time } from './decide.ts';

type Windows = Pick<Policy, 'keepCommittedMs' | 'keepLapsedMs'>;

/** How far a caller's clock may be ahead of ours. */
const MOST_AHEAD: DurationMs = MINUTE;

/**
 * Whether an absent key may be one that was forgotten: the caller first sent it longer ago than records are kept. A
 * time in our future is by a clock that is wrong, and proves nothing either.
 */
export function mayBeForgotten(
  firstSentAt: EpochMs | undefined,
  windows: Windows,
  time: Time,
): boolean {
  if (firstSentAt === undefined) return false;
  // Whichever clock is wrong, what may be too old does not run.
  const now = time.latest;
  const { keepCommittedMs, keepLapsedMs = keepCommittedMs } = windows;
  // Not the window of rejections: where that is shorter, they are to be judged anew.
  const keptMs = Math.min(keepCommittedMs, keepLapsedMs);
  return firstSentAt + keptMs <= now || firstSentAt > now + MOST_AHEAD;
}
