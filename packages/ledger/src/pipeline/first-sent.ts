import { type Refusal, refuse } from '../refusal.ts';
import type { Machine } from './machine.ts';

const MINUTE = 60_000;
/** How far a caller's clock may be ahead of ours. */
const MOST_AHEAD = MINUTE;
/** A caller's clock may be ahead, and what is admitted near the end of the window would only be refused later. */
const MARGIN = 2 * MINUTE;

/** The two windows of keys: those of transactions, and those of writes and creations. */
export type KeyKind = 'transactions' | 'writes';

/**
 * Whether a key that is not known may be one that was forgotten. A time in our future is by a clock that is wrong, and
 * proves nothing either. Asked at admission by the clock, and again when the request is applied, by the time of its
 * log entry: in between it may have waited for as long as you like.
 */
export function mayBeForgotten(
  machine: Machine,
  kind: KeyKind,
  firstSentAt: number | undefined,
  now = machine.time,
): boolean {
  if (firstSentAt === undefined) return false;
  const { settings } = machine;
  const ttlMs = kind === 'transactions' ? settings.idempotency_ttl_ms : settings.client_ttl_ms;
  const knownSince = Math.max(machine.keysSince()[kind], now - ttlMs);
  const marginMs = Math.min(MARGIN, ttlMs / 10);
  return firstSentAt - marginMs <= knownSince || firstSentAt > now + MOST_AHEAD;
}

export const KEY_EXPIRED: Refusal = refuse(
  'KEY_EXPIRED',
  'The request was first sent so long ago, or by a clock so wrong, that its key may have been used and forgotten. ' +
    'It is not run. Check what it was to change before you send it again.',
);
