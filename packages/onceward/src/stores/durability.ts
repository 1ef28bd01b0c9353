import { StoreError } from '../engine/errors.ts';
import type { StoreTraits } from '../engine/record-store.ts';

export type Durability = StoreTraits['durability'];

/** One setting of a store's server, as found when it was opened, and what follows from it. */
export interface StoreFinding {
  readonly setting: string;
  readonly value: string;
  /** Whether this setting holds the store below a stronger promise. */
  readonly limits: boolean;
  /** What it means, and, where it limits, what to change. */
  readonly says: string;
}

const ORDER: readonly Durability[] = ['none', 'process', 'machine', 'replicated'];

/** Refuses to open a store under a stronger name than its settings prove. */
export function requireDurability(
  store: string,
  required: Durability | undefined,
  proven: Durability,
  findings: readonly StoreFinding[],
): void {
  if (required === undefined || ORDER.indexOf(proven) >= ORDER.indexOf(required)) return;
  const reasons = findings.filter((finding) => finding.limits);
  const why = reasons.map(({ setting, value, says }) => `${setting} is ${value}: ${says}`);
  const because = why.length === 0 ? '' : `. ${why.join('; ')}`;
  throw new StoreError(
    'ONCE_INVALID_CONFIG',
    `${store} promises durability "${proven}", not "${required}"${because}`,
    { applied: 'no' },
  );
}
