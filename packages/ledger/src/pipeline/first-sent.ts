import { type Refusal, refuse } from '../refusal.ts';

const MINUTE = 60_000;
/** How far a caller's clock may be ahead of ours. */
const MOST_AHEAD = MINUTE;
/** What is admitted may wait before it is applied, and a caller's clock may be ahead: neither outlasts the window. */
const MARGIN = 2 * MINUTE;

/**
 * Whether a key that is not known may be one that was forgotten, now or by the time its request is applied. A time in
 * our future is by a clock that is wrong, and proves nothing either.
 */
export function mayBeForgotten(firstSentAt: number, ttlMs: number, now: number): boolean {
  const knownMs = ttlMs - Math.min(MARGIN, ttlMs / 10);
  return firstSentAt + knownMs <= now || firstSentAt > now + MOST_AHEAD;
}

export const KEY_EXPIRED: Refusal = refuse(
  'KEY_EXPIRED',
  'The request was first sent so long ago, or by a clock so wrong, that its key may have been used and forgotten. ' +
    'It is not run. Look at what it was to change before you send it anew.',
);
