import { type Refusal, refuse } from '../../refusal.ts';
import type { Condition } from '../../rules/operation.ts';

export type EntityRow = {
  /** Base64. */
  readonly value: string;
  /** 1 when it was created, one more for each change. */
  readonly version: number;
  readonly expires_at: number | null;
};

/** An expired entity is absent, whether or not it has been cleared away. */
export function aliveAt(row: EntityRow | undefined, now: number): EntityRow | undefined {
  if (row === undefined || row.expires_at === null || row.expires_at > now) return row;
  return undefined;
}

/** Why a condition does not hold, if it does not. */
export function findUnmet(
  condition: Condition,
  key: string,
  entity: EntityRow | undefined,
): Refusal | undefined {
  const currentVersion = entity?.version ?? 0;
  if ('not_exists' in condition) {
    if (entity === undefined) return undefined;
    return refuse('KEY_EXISTS', 'The entity exists.', { key, currentVersion });
  }
  if (entity === undefined && !('version' in condition && condition.version === 0)) {
    return refuse('KEY_NOT_FOUND', 'The entity does not exist.', { key });
  }
  if ('version' in condition && condition.version !== currentVersion) {
    const message = `The entity has version ${currentVersion}, not ${condition.version}.`;
    return refuse('VERSION_MISMATCH', message, { key, currentVersion });
  }
  if ('value_equals' in condition && condition.value_equals !== entity?.value) {
    return refuse('VALUE_MISMATCH', 'The entity has another value.', { key, currentVersion });
  }
  return undefined;
}
