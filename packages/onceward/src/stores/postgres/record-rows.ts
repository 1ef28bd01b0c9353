import { hash } from 'node:crypto';
import { StoreError } from '../../engine/errors.ts';
import type { OperationId, RecordState } from '../../engine/record.ts';
import type { StoredRecord } from '../../engine/record-store.ts';
import { requireStorable } from '../storable-id.ts';
import { EPOCH } from './pg-session.ts';

/** The states as they stand in the table. A number, once given, keeps its meaning. */
export const STATE_NUMBERS = { pending: 1, committed: 2, rejected: 3, in_doubt: 4 } as const;

export const READ = `select ${EPOCH}, r.hash, r.scope, r.key, r.revision, r.bytes
  from (select 1) as always left join onceward.records r on r.hash = any($1::uuid[])`;

/** Sixteen bytes, each as the character of its number: a buffer for each would cost more than the hash. */
export function hashOf(id: OperationId): string {
  requireStorable(id);
  return hash('sha256', `${id.scope.length}:${id.scope}${id.key}`, 'binary').slice(0, 16);
}

export function uuidText(hash: string): string {
  const hex = Buffer.from(hash, 'latin1').toString('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

export function stateOf(number: number): RecordState {
  for (const [state, known] of Object.entries(STATE_NUMBERS)) {
    if (known === number) return state as RecordState;
  }
  throw new StoreError('ONCE_RECORD_UNREADABLE', `onceward.records holds state ${number}`, {
    applied: 'no',
  });
}

export interface ReadRow extends RecordRow {
  /** Null when nothing was found: the row is there for the epoch alone. */
  readonly hash: string | null;
}

export interface RecordRow {
  readonly scope: string;
  readonly key: string;
  readonly revision: string;
  readonly bytes: Buffer;
}

export function recordFor(id: OperationId, row: RecordRow | null): StoredRecord | null {
  if (row === null) return null;
  if (row.scope !== id.scope || row.key !== id.key) throw collision();
  return { revision: Number(row.revision), bytes: row.bytes };
}

export function collision(): StoreError {
  return new StoreError(
    'ONCE_RECORD_UNREADABLE',
    'two operations have the same hash, which should not happen within the age of the universe',
    { applied: 'no' },
  );
}
