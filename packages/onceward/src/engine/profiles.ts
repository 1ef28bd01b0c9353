import type { Policy } from './policy.ts';
import { DAY, HOUR, KIB, MIB, MINUTE, SECOND } from './units.ts';

const base = {
  leaseMs: MINUTE,
  waitMs: 2 * SECOND,
  keepCommittedMs: 5 * MINUTE,
  keepRejectedMs: 5 * MINUTE,
  onThrow: 'release',
  storeTimeoutMs: SECOND,
  onStoreDown: 'refuse',
  maxOutcomeBytes: MIB,
  packAboveBytes: 8 * KIB,
} as const satisfies Policy;

/** Named sets of policy values, one for each way in. */
export const profiles = {
  /** A web API: short replays, duplicates wait for the answer, failures may be tried again. */
  http: base,
  /** Devices that synchronise: a day of replays, duplicates refused at once, failures kept. */
  sync: {
    ...base,
    waitMs: 0,
    keepCommittedMs: DAY,
    keepRejectedMs: DAY,
    onThrow: 'reject',
  },
  /** As Stripe's API does it: a day of replays, of failures too, and duplicates refused at once. */
  stripe: {
    ...base,
    waitMs: 0,
    keepCommittedMs: DAY,
    keepRejectedMs: DAY,
    onThrow: 'reject',
  },
  /** Job submissions: duplicates wait long, rejections are soon forgotten. */
  jobs: { ...base, waitMs: 30 * SECOND, keepRejectedMs: MINUTE },
  /** Ledger transactions: a duplicate is refused, never replayed. */
  ledger: { ...base, waitMs: 0, keepCommittedMs: HOUR, keepRejectedMs: HOUR },
} as const satisfies Record<string, Policy>;

export type ProfileName = keyof typeof profiles;
