import { hash } from 'node:crypto';
import { StoreError } from '../../engine/errors.ts';
import type { OperationId, RecordState, Revision } from '../../engine/record.ts';
import type { NextRecord, StoredRecord, SwapResult } from '../../engine/record-store.ts';
import { requireStorable } from '../storable-id.ts';
import { int2Array, int4Array, int8Array, textArray, uuidArray } from './binary-arrays.ts';
import { EPOCH } from './pg-session.ts';

/** The states as they stand in the table. A number, once given, keeps its meaning. */
export const STATE_NUMBERS = { pending: 1, committed: 2, rejected: 3, in_doubt: 4 } as const;

export interface SwapItem {
  readonly id: OperationId;
  /** As `hashOf` gives it. */
  readonly hash: string;
  readonly expected: Revision | null;
  readonly next: NextRecord | null;
}

/**
 * `busy`: another transaction is writing the same operation. `collision`: the hash belongs to another operation. Either
 * way nothing was done for this row, and the rest of its batch is not concerned.
 */
export type SwapAnswer = SwapResult | 'busy' | 'collision';

const OUTCOMES = { lost: 0, won: 1, busy: 2, collision: 3 } as const;

/** What a connection that is ours alone knows SWAP by. */
export const SWAP_NAME = 'onceward_swap';

export const SWAP = `select ${EPOCH}, s.*
  from onceward.swap_all($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) s`;

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

/** Four bytes of the hash: two operations seldom share it. */
export function lockIdOf({ hash }: SwapItem): number {
  let id = 0;
  for (let at = 0; at < 4; at += 1) id = (id << 8) | hash.charCodeAt(at);
  return id;
}

export function stateOf(number: number): RecordState {
  for (const [state, known] of Object.entries(STATE_NUMBERS)) {
    if (known === number) return state as RecordState;
  }
  throw new StoreError('ONCE_RECORD_UNREADABLE', `onceward.records holds state ${number}`, {
    applied: 'no',
  });
}

/** The parameters of SWAP: one array per column, and the bytes of all in one piece. */
export function swapParameters(items: readonly SwapItem[], waitForLocks: boolean): unknown[] {
  let total = 0;
  for (const item of items) total += sizeOf(item);
  const bytes = Buffer.allocUnsafe(total);
  let end = 0;
  const starts = int4Array(items, ({ next }) => {
    const start = end;
    if (next !== null) bytes.set(next.bytes, start);
    end += next === null ? 0 : next.bytes.length;
    return start + 1;
  });
  return [
    int4Array(items, lockIdOf),
    uuidArray(items, ({ hash }) => hash),
    textArray(items, ({ id }) => id.scope),
    textArray(items, ({ id }) => id.key),
    int8Array(items, ({ expected }) => expected),
    int2Array(items, ({ next }) => (next === null ? null : STATE_NUMBERS[next.state])),
    int8Array(items, ({ next }) => dueOf(next)),
    starts,
    int4Array(items, sizeOf),
    bytes,
    waitForLocks,
  ];
}

function sizeOf({ next }: SwapItem): number {
  return next === null ? 0 : next.bytes.length;
}

export interface SwapRow {
  readonly place: number;
  readonly outcome: number;
  readonly revision: string | null;
  readonly bytes: Buffer | null;
}

/** The answers to so many items, in their order. The first row has the revision of the first item. */
export function swapAnswers([first, ...others]: readonly SwapRow[], count: number): SwapAnswer[] {
  if (first?.place !== 0) {
    throw new StoreError('ONCE_STORE_UNAVAILABLE', 'PostgreSQL gave no answer');
  }
  const base = Number(first.revision);
  const answers: SwapAnswer[] = [];
  for (let at = 0; at < count; at += 1) answers.push({ won: true, revision: base + at });
  for (const row of others) answers[row.place - 1] = answerIn(row);
  return answers;
}

function answerIn(row: SwapRow): SwapAnswer {
  if (row.outcome === OUTCOMES.won) return { won: true, revision: Number(row.revision) };
  if (row.outcome === OUTCOMES.busy) return 'busy';
  if (row.outcome === OUTCOMES.collision) return 'collision';
  const current = row.bytes === null ? null : { revision: Number(row.revision), bytes: row.bytes };
  return { won: false, current };
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

function dueOf(next: NextRecord | null): number | null {
  return next === null || next.dueAt === null ? null : Math.ceil(next.dueAt);
}

export function collision(): StoreError {
  return new StoreError(
    'ONCE_RECORD_UNREADABLE',
    'two operations have the same hash, which should not happen within the age of the universe',
    { applied: 'no' },
  );
}
