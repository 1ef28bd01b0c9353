import { type Policy, type ProfileName, profiles } from 'onceward';
import type { Settings } from './settings.ts';

type PolicySettings = Pick<
  Settings,
  | 'pendingTtlSeconds'
  | 'committedTtlSeconds'
  | 'rejectedTtlSeconds'
  | 'waitForPending'
  | 'pendingWaitTimeout'
  | 'onStoreDown'
  | 'storeTimeoutSeconds'
>;

/** A profile with what the settings change in it. */
export function policyOf(profile: ProfileName, settings: PolicySettings): Policy {
  const base: Policy = profiles[profile];
  return {
    ...base,
    leaseMs: toMs(settings.pendingTtlSeconds) ?? base.leaseMs,
    keepCommittedMs: toMs(settings.committedTtlSeconds) ?? base.keepCommittedMs,
    keepRejectedMs: toMs(settings.rejectedTtlSeconds) ?? base.keepRejectedMs,
    waitMs: waitMs(base, settings),
    onStoreDown: settings.onStoreDown,
    storeTimeoutMs: Math.round(settings.storeTimeoutSeconds * 1_000),
  };
}

/** Waiting that is switched on for a profile that does not wait needs a time: the web's two seconds. */
function waitMs(base: Policy, settings: PolicySettings): number {
  if (settings.waitForPending === false) return 0;
  const asked = toMs(settings.pendingWaitTimeout);
  if (asked !== null) return asked;
  if (settings.waitForPending === true && base.waitMs === 0) return profiles.http.waitMs;
  return base.waitMs;
}

/** Rounded: 1.1 s times a thousand is a little more than 1100. */
function toMs(value: number | null): number | null {
  return value === null ? null : Math.round(value * 1_000);
}
