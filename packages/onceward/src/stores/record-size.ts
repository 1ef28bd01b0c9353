import { StoreError } from '../engine/errors.ts';
import type { NextRecord, StoreTraits } from '../engine/record-store.ts';

/** Refuses a record that is longer than the store says it accepts, before anything is sent. */
export function assertFits(
  next: NextRecord | null,
  { name, maxRecordBytes }: Pick<StoreTraits, 'name' | 'maxRecordBytes'>,
): void {
  if (next === null || next.bytes.length <= maxRecordBytes) return;
  throw new StoreError(
    'ONCE_TOO_LARGE',
    `the record is ${next.bytes.length} bytes, and the ${name} store accepts ${maxRecordBytes}; keep less of the outcome`,
    { applied: 'no' },
  );
}
