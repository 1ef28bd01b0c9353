import { StoreError } from '../engine/errors.ts';
import type { OperationId } from '../engine/record.ts';

/** Half of a surrogate pair cannot be written as UTF-8: two such ids would be stored as one. */
const UNPAIRED = /\p{Surrogate}/u;

/** Refuses an id that would not come back from the store as it went in. */
export function requireStorable(id: OperationId, unstorable: RegExp = UNPAIRED): void {
  for (const part of ['scope', 'key'] as const) {
    if (unstorable.test(id[part])) {
      throw new StoreError(
        'ONCE_INVALID_INPUT',
        `the ${part} holds a character that this store cannot keep: half a surrogate pair, or zero`,
        { applied: 'no' },
      );
    }
  }
}
