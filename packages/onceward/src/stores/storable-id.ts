import { StoreError } from '../engine/errors.ts';
import type { OperationId } from '../engine/record.ts';

/**
 * Half of a surrogate pair cannot be written as UTF-8: two such ids would be stored as one. Databases end text at zero.
 * The same ids are refused everywhere, so that an application can change its store.
 */
const UNSTORABLE = /\0|\p{Surrogate}/u;

/** Refuses an id that would not come back from every store as it went in. */
export function requireStorable(id: OperationId): void {
  for (const part of ['scope', 'key'] as const) {
    if (UNSTORABLE.test(id[part])) {
      throw new StoreError(
        'ONCE_INVALID_INPUT',
        `the ${part} holds a character that cannot be stored: zero, or half of a surrogate pair`,
        { applied: 'no' },
      );
    }
  }
}
