import { StoreError } from '../engine/errors.ts';
import type { OperationId } from '../engine/record.ts';

/**
 * Half of a surrogate pair cannot be written as UTF-8: two such ids would be stored as one. Databases end text at zero.
 * The same ids are refused everywhere, so that an application can change its store.
 */
function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

/** Refuses an id that would not come back from every store as it went in. */
export function requireStorable({ scope, key }: OperationId): void {
  if (isStorable(scope) && isStorable(key)) return;
  const part = isStorable(scope) ? 'key' : 'scope';
  throw new StoreError(
    'ONCE_INVALID_INPUT',
    `the ${part} holds a character that cannot be stored: zero, or half of a surrogate pair`,
    { applied: 'no' },
  );
}
