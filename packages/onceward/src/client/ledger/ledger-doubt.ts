import { DAY, MINUTE } from '../client-world.ts';
import type { Entry } from '../storages/outbox-storage.ts';

/** How long a ledger knows a key, by default: `LEDGER_CLIENT_TTL_SECONDS`. */
export const LEDGER_TTL_MS = DAY;

/** What is sent near the end may arrive after it. */
const MARGIN_MS = 5 * MINUTE;

export interface StoredWrite extends Entry {
  readonly sequence: string;
  readonly idempotency_key: string;
  readonly operations: readonly unknown[];
  /** When it was first sent, or about to be; `null` while it has not been. Missing in what earlier versions stored. */
  readonly sent_at?: number | null;
}

/**
 * Whether the ledger may have forgotten the key of a write that may have been committed. Then no answer
 * reveals its outcome any more, and sending it again could run it twice.
 */
export function isPastTtl(write: StoredWrite, now: number, ttlMs: number): boolean {
  if (write.sent_at === null) return false;
  const known = ttlMs - Math.min(MARGIN_MS, ttlMs / 10);
  return now - (write.sent_at ?? 0) >= known;
}

export const PAST_TTL = {
  ok: false,
  code: 'OUTCOME_UNKNOWN',
  happened: 'unknown',
  message:
    'The write was sent and no answer came while the ledger still knew its key. It may have been committed or ' +
    'not; it is not sent again. Check what it was to change before you write again.',
} as const;
