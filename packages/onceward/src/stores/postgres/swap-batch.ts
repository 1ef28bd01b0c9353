import { StoreError } from '../../engine/errors.ts';
import type { OperationId, Revision } from '../../engine/record.ts';
import type { NextRecord, SwapResult } from '../../engine/record-store.ts';
import {
  byteaArray,
  int2Array,
  int4Array,
  int8Array,
  textArray,
  uuidArray,
} from './binary-arrays.ts';
import { EPOCH } from './pg-session.ts';
import { STATE_NUMBERS } from './record-rows.ts';

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

const OUTCOMES = { lost: 0, won: 1, busy: 2 } as const;

/** What a connection that is ours alone knows SWAP by. */
export const SWAP_NAME = 'onceward_swap_batch';

export const SWAP = `select ${EPOCH}, s.*
  from onceward.swap_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) s`;

/**
 * The same within the caller's transaction, whose id is returned. If another one is named than is open, nothing is
 * done or returned: the condition reads no row, so the server tests it before it calls the function.
 */
export const SWAP_WITHIN = `select pg_current_xact_id()::text as transaction, s.*
  from onceward.swap_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) s
  where $16::text is null or $16::text = pg_current_xact_id()::text`;

interface Write extends SwapItem {
  readonly next: NextRecord;
}

/** A batch as SWAP wants it: what is new, what takes the place of something, and what goes. */
export class SwapBatch {
  readonly #items: readonly SwapItem[];
  readonly #new: Write[] = [];
  readonly #changed: Write[] = [];
  readonly #removed: SwapItem[] = [];

  constructor(items: readonly SwapItem[]) {
    this.#items = items;
    const groups = { new: this.#new, changed: this.#changed, removed: this.#removed };
    for (const item of items) groups[groupOf(item)].push(item as Write);
  }

  /** One array per column. */
  parameters(waitForLocks: boolean): unknown[] {
    return [
      int4Array([...this.#new, ...this.#changed, ...this.#removed], lockIdOf),
      uuidArray(this.#new, hashIn),
      textArray(this.#new, ({ id }) => id.scope),
      textArray(this.#new, ({ id }) => id.key),
      int2Array(this.#new, stateIn),
      int8Array(this.#new, dueIn),
      byteaArray(this.#new, bytesIn),
      uuidArray(this.#changed, hashIn),
      int8Array(this.#changed, expectedIn),
      int2Array(this.#changed, stateIn),
      int8Array(this.#changed, dueIn),
      byteaArray(this.#changed, bytesIn),
      uuidArray(this.#removed, hashIn),
      int8Array(this.#removed, expectedIn),
      waitForLocks,
    ];
  }

  /** The answers, in the order of the items. The first row has the revision of the first place. */
  answers([first, ...others]: readonly SwapRow[]): SwapAnswer[] {
    if (first?.place !== 0) {
      throw new StoreError('ONCE_STORE_UNAVAILABLE', 'PostgreSQL gave no answer');
    }
    const base = Number(first.revision);
    const rows = new Map(others.map((row) => [row.place, row]));
    const places = {
      new: 0,
      changed: this.#new.length,
      removed: this.#new.length + this.#changed.length,
    };
    return this.#items.map((item) => {
      places[groupOf(item)] += 1;
      const place = places[groupOf(item)];
      const row = rows.get(place);
      return row === undefined ? { won: true, revision: base + place - 1 } : answerIn(row, item);
    });
  }
}

function groupOf({ expected, next }: SwapItem): 'new' | 'changed' | 'removed' {
  if (next === null) return 'removed';
  return expected === null ? 'new' : 'changed';
}

const hashIn = ({ hash }: SwapItem) => hash;
const expectedIn = ({ expected }: SwapItem) => expected;
const stateIn = ({ next }: Write) => STATE_NUMBERS[next.state];
const dueIn = ({ next }: Write) => (next.dueAt === null ? null : Math.ceil(next.dueAt));
const bytesIn = ({ next }: Write) => next.bytes;

export interface SwapRow {
  /** Of the transaction, where it was asked for. */
  readonly transaction?: string;
  readonly place: number;
  readonly outcome: number;
  readonly revision: string;
  /** Of what is there. */
  readonly scope: string | null;
  readonly key: string | null;
  readonly bytes: Buffer | null;
}

function answerIn(row: SwapRow, { id }: SwapItem): SwapAnswer {
  const revision = Number(row.revision);
  if (row.outcome === OUTCOMES.won) return { won: true, revision };
  if (row.outcome === OUTCOMES.busy) return 'busy';
  if (row.bytes === null) return { won: false, current: null };
  if (row.scope !== id.scope || row.key !== id.key) return 'collision';
  return { won: false, current: { revision, bytes: row.bytes } };
}

/** Four bytes of the hash: two operations rarely share it. */
export function lockIdOf({ hash }: SwapItem): number {
  let id = 0;
  for (let at = 0; at < 4; at += 1) id = (id << 8) | hash.charCodeAt(at);
  return id;
}
