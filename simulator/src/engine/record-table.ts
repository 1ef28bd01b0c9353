import {
  type NextRecord,
  type OperationId,
  type OperationRecord,
  type Revision,
  type ScannedRecord,
  type ScanQuery,
  type StoredRecord,
  StoreError,
  type StoreTraits,
  type SwapResult,
} from 'onceward';
import { decodeRecord } from '../../../packages/onceward/src/engine/record/record-codec.ts';
import type { Life } from './life.ts';
import type { Scheduler } from './scheduler.ts';

/** A record as the simulated store keeps it, with what only the simulator may know of it. */
export interface Kept extends ScannedRecord {
  /** What was written, whatever has become of the bytes since. */
  readonly record: OperationRecord;
  readonly corrupted: boolean;
  readonly spoiltAt: number;
  readonly appliedAt: number;
}

/** One change of one record, at the moment it became true. */
export interface Write {
  readonly id: OperationId;
  readonly before: Kept | null;
  readonly after: Kept | null;
  readonly actor: Life;
  readonly revision: Revision;
}

export type Witness = (write: Write) => void;

/** The truth of the simulated store: swaps are atomic here, and every one of them is witnessed. */
export class RecordTable {
  readonly #records = new Map<string, Kept>();
  readonly #watchers = new Map<string, Set<() => void>>();
  readonly #scheduler: Scheduler;
  readonly #witness: Witness;
  #revision: Revision = 0;

  constructor(scheduler: Scheduler, witness: Witness) {
    this.#scheduler = scheduler;
    this.#witness = witness;
  }

  /** The revision that the next write will be given, were it the only one. */
  get nextRevision(): Revision {
    return this.#revision + 1;
  }

  mintRevision(): Revision {
    this.#revision += 1;
    return this.#revision;
  }

  get(id: OperationId): Kept | null {
    return this.#records.get(nameOf(id)) ?? null;
  }

  swap(
    actor: Life,
    id: OperationId,
    expected: Revision | null,
    next: NextRecord | null,
  ): SwapResult {
    const before = this.get(id);
    if ((before?.revision ?? null) !== expected) return { won: false, current: before };
    const revision = this.mintRevision();
    this.put(actor, id, revision, next);
    return { won: true, revision };
  }

  /** Writes without asking. For a transaction that commits: it asked when it took its lock. */
  put(actor: Life, id: OperationId, revision: Revision, next: NextRecord | null): void {
    const name = nameOf(id);
    const before = this.#records.get(name) ?? null;
    const after = next === null ? null : this.#keep(id, revision, next);
    if (after === null) this.#records.delete(name);
    else this.#records.set(name, after);
    this.#witness({ id, before, after, actor, revision });
    for (const wake of [...(this.#watchers.get(name) ?? [])]) wake();
  }

  scan(query: ScanQuery): Kept[] {
    const found: Kept[] = [];
    for (const kept of this.#records.values()) {
      if (found.length >= query.limit) break;
      if (query.states !== undefined && !query.states.includes(kept.state)) continue;
      if (query.scope !== undefined && kept.id.scope !== query.scope) continue;
      if (query.dueBefore !== undefined && (kept.dueAt ?? Infinity) > query.dueBefore) continue;
      found.push(kept);
    }
    return found;
  }

  /** Spoils the bytes of a record behind everybody's back. */
  corrupt(id: OperationId, spoil: (bytes: Uint8Array) => Uint8Array): boolean {
    const kept = this.get(id);
    if (kept === null) return false;
    const bytes = spoil(Uint8Array.from(kept.bytes));
    this.#records.set(nameOf(id), {
      ...kept,
      bytes,
      corrupted: true,
      spoiltAt: this.#scheduler.now,
    });
    return true;
  }

  watch(id: OperationId, wake: () => void): () => void {
    const name = nameOf(id);
    const watchers = this.#watchers.get(name) ?? new Set();
    this.#watchers.set(name, watchers.add(wake));
    return () => watchers.delete(wake);
  }

  #keep(id: OperationId, revision: Revision, next: NextRecord): Kept {
    const record = decodeRecord(id, next.bytes);
    if (record === null) throw new Error('the engine wrote a record that it cannot read');
    const appliedAt = this.#scheduler.now;
    return { id, revision, ...next, record, corrupted: false, spoiltAt: Infinity, appliedAt };
  }
}

function nameOf(id: OperationId): string {
  return `${id.scope} ${id.key}`;
}

export function copyOf(kept: Kept | null): StoredRecord | null {
  return kept === null ? null : { revision: kept.revision, bytes: kept.bytes };
}

export function refuseTooLarge(next: NextRecord | null, traits: StoreTraits): StoreError | null {
  if (next === null || next.bytes.length <= traits.maxRecordBytes) return null;
  const size = next.bytes.length;
  return new StoreError(
    'ONCE_TOO_LARGE',
    `the record has ${size} bytes; the limit is ${traits.maxRecordBytes}`,
    { applied: 'no' },
  );
}
