import { StoreError } from '../engine/errors.ts';

/** What a store was given cannot work: says what is wrong and what to do. */
export function invalidConfig(message: string): StoreError {
  return new StoreError('ONCE_INVALID_CONFIG', message, { applied: 'no' });
}
