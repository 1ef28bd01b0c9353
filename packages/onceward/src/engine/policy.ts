import { OncewardError } from './errors.ts';
import { refuseUnknown } from './known-options.ts';
import type { OnLapse } from './record.ts';
import { DAY, type DurationMs } from './units.ts';

/** How an operation is protected. Doors start from a profile (`profiles.ts`) and change what they must. */
export interface Policy {
  /** How long a claim is trusted to be alive without a heartbeat. */
  readonly leaseMs: DurationMs;
  /** How long an arrival waits for a running one. 0 refuses at once. */
  readonly waitMs: DurationMs;
  /** How long an answer is kept, from the moment it settles. */
  readonly keepCommittedMs: DurationMs;
  readonly keepRejectedMs: DurationMs;
  /** How long a lost attempt that may be taken over waits for someone to do so; `keepCommittedMs` by default. */
  readonly keepLapsedMs?: DurationMs;
  /** What a thrown error means: the claim is given back, the failure is kept, or nobody can tell. */
  readonly onThrow: 'release' | 'reject' | 'in_doubt';
  /** Bound on every call to the store. */
  readonly storeTimeoutMs: DurationMs;
  /** What to do while the store cannot be asked. */
  readonly onStoreDown: 'refuse' | 'run_unprotected';
  readonly maxOutcomeBytes: number;
  /** Outcomes longer than this are compressed. */
  readonly packAboveBytes: number;
}

/** What kind of effect runs. It decides what may be done when an attempt is lost half-way. */
export type EffectKind =
  /** Shares the store's transaction: both happen or neither. */
  | { readonly kind: 'transaction' }
  /** The target itself dedupes on a key we derive, so it is safe to repeat. */
  | { readonly kind: 'downstream' }
  /** Anything else. The caller says what a lost attempt means. */
  | { readonly kind: 'external'; readonly onLapse: OnLapse };

export function onLapseOf(effect: EffectKind): OnLapse {
  return effect.kind === 'external' ? effect.onLapse : 'take_over';
}

const LONGEST = 366 * DAY;
/** One outcome never unpacks to more than this, whatever a policy says. */
export const OUTCOME_CEILING = 64 * 1_048_576;

const ON_THROW = ['release', 'reject', 'in_doubt'];
const ON_STORE_DOWN = ['refuse', 'run_unprotected'];
const EFFECTS = ['transaction', 'downstream', 'external'];
const ON_LAPSE = ['take_over', 'in_doubt'];

const KNOWN = {
  leaseMs: true,
  waitMs: true,
  keepCommittedMs: true,
  keepRejectedMs: true,
  keepLapsedMs: true,
  onThrow: true,
  storeTimeoutMs: true,
  onStoreDown: true,
  maxOutcomeBytes: true,
  packAboveBytes: true,
} satisfies Record<keyof Policy, true>;

/** For what users write down; `checkPolicy`, which every call goes through, looks at the values alone. */
export function refuseUnknownPolicy(policy: Partial<Policy> | undefined): void {
  if (policy !== undefined) refuseUnknown('policy', policy, KNOWN);
}

export function checkPolicy(policy: Policy): Policy {
  requireDuration('leaseMs', policy.leaseMs, 10);
  requireDuration('waitMs', policy.waitMs, 0);
  requireDuration('keepCommittedMs', policy.keepCommittedMs, 1);
  requireDuration('keepRejectedMs', policy.keepRejectedMs, 1);
  if (policy.keepLapsedMs !== undefined) requireDuration('keepLapsedMs', policy.keepLapsedMs, 1);
  requireDuration('storeTimeoutMs', policy.storeTimeoutMs, 1);
  requireOneOf('onThrow', policy.onThrow, ON_THROW);
  requireOneOf('onStoreDown', policy.onStoreDown, ON_STORE_DOWN);
  requireBytes('maxOutcomeBytes', policy.maxOutcomeBytes);
  requireBytes('packAboveBytes', policy.packAboveBytes);
  return policy;
}

export function checkEffect(effect: EffectKind): EffectKind {
  requireOneOf('effect.kind', effect?.kind, EFFECTS);
  if (effect.kind === 'external') {
    requireOneOf('effect.onLapse', effect.onLapse, ON_LAPSE);
  }
  return effect;
}

const KNOWN_OF_EFFECT = {
  transaction: { kind: true },
  downstream: { kind: true },
  external: { kind: true, onLapse: true },
} as const;

/** For what users write down, as `refuseUnknownPolicy`. */
export function refuseUnknownEffect(effect: EffectKind | undefined): void {
  const known = KNOWN_OF_EFFECT[effect?.kind as EffectKind['kind']];
  if (effect !== undefined && known !== undefined) refuseUnknown('effect', effect, known);
}

export function requireDuration(name: string, value: unknown, least: number): void {
  const isWhole = Number.isInteger(value);
  if (isWhole && (value as number) >= least && (value as number) <= LONGEST) return;
  throw new OncewardError(
    'ONCE_INVALID_CONFIG',
    `${name} is ${String(value)}; it must be a whole number of milliseconds from ${least} to ${LONGEST}`,
  );
}

function requireBytes(name: string, value: unknown): void {
  if (Number.isInteger(value) && (value as number) >= 0 && (value as number) <= OUTCOME_CEILING) {
    return;
  }
  throw new OncewardError(
    'ONCE_INVALID_CONFIG',
    `${name} is ${String(value)}; it must be a whole number of bytes from 0 to ${OUTCOME_CEILING}`,
  );
}

function requireOneOf(name: string, value: unknown, allowed: readonly string[]): void {
  if (allowed.includes(value as string)) return;
  throw new OncewardError(
    'ONCE_INVALID_CONFIG',
    `${name} is ${JSON.stringify(value)}; it must be one of ${allowed.join(', ')}`,
  );
}
