import type { OperationId, RecordState, Revision } from '../../engine/record.ts';
import type {
  NextRecord,
  RecordStore,
  ScannedRecord,
  ScanQuery,
  StoreCount,
  StoredRecord,
  StoreTraits,
  SwapResult,
} from '../../engine/record-store.ts';
import { type EpochMs, KIB } from '../../engine/units.ts';
import type { Durability, StoreFinding } from '../durability.ts';
import { assertFits } from '../record-size.ts';
import { Rounds } from '../rounds.ts';
import { requireStorable } from '../storable-id.ts';
import type { EtcdLink } from './etcd-link.ts';
import {
  deleteRequest,
  putRequest,
  rangeRequest,
  rangeResult,
  swapRequest,
  txnResult,
  watchHasNews,
  watchRequest,
} from './etcd-messages.ts';
import { encodeValue, keyOf, rangeOf, scannedIn, storedIn } from './stored-value.ts';

/** etcd keeps every key and value in memory and sends them all to a member that joins. */
const MAX_RECORD_BYTES = 64 * KIB;
const PAGE = 500;
/** Records that one pass of a sweeper reads. They come with their bytes. */
const SWEPT_AT_ONCE = 10_000;

const RANGE = '/etcdserverpb.KV/Range';
const TXN = '/etcdserverpb.KV/Txn';
const WATCH = '/etcdserverpb.Watch/Watch';

export interface EtcdStoreParts {
  readonly link: EtcdLink;
  readonly prefix: string;
  readonly clock: () => Promise<EpochMs | null>;
  readonly durability: Durability;
  readonly findings: readonly StoreFinding[];
}

/** A record's revision is etcd's own: the cluster's count of changes when the key was last written. */
export class EtcdStore implements RecordStore {
  readonly traits: StoreTraits;
  /** What was found out about the cluster, and what it means. */
  readonly findings: readonly StoreFinding[];
  readonly clock: () => Promise<EpochMs | null>;
  readonly #link: EtcdLink;
  readonly #prefix: string;
  readonly #rounds: Rounds<readonly ScannedRecord[]>;

  constructor(parts: EtcdStoreParts) {
    this.traits = {
      name: 'etcd',
      durability: parts.durability,
      maxRecordBytes: MAX_RECORD_BYTES,
      firstRevisionOfLife: null,
    };
    this.findings = parts.findings;
    this.clock = parts.clock;
    this.#link = parts.link;
    this.#prefix = parts.prefix;
    const begin = () => this.#pages(undefined);
    this.#rounds = new Rounds(begin, (page) => page.length, SWEPT_AT_ONCE);
  }

  async read(id: OperationId): Promise<StoredRecord | null> {
    requireStorable(id);
    const reply = await this.#link.call(RANGE, rangeRequest(keyOf(this.#prefix, id)));
    const [pair] = rangeResult(reply).found;
    return pair === undefined ? null : storedIn(pair);
  }

  async swap(
    id: OperationId,
    expected: Revision | null,
    next: NextRecord | null,
  ): Promise<SwapResult> {
    requireStorable(id);
    assertFits(next, this.traits);
    const key = keyOf(this.#prefix, id);
    const write = this.#writeOf(key, expected, next);
    const result = txnResult(await this.#link.call(TXN, swapRequest(key, expected ?? 0, write)));
    if (result.succeeded) return { won: true, revision: result.revision };
    return { won: false, current: result.current === null ? null : storedIn(result.current) };
  }

  async *scan(query: ScanQuery): AsyncGenerator<ScannedRecord> {
    let given = 0;
    for await (const record of this.#records(query.scope)) {
      if (given >= query.limit) return;
      if (query.states !== undefined && !query.states.includes(record.state)) continue;
      if (query.dueBefore !== undefined && !isDue(record, query.dueBefore)) continue;
      given += 1;
      yield record;
    }
  }

  async *scanDue(now: EpochMs, limit: number): AsyncGenerator<ScannedRecord> {
    if (limit <= 0) return;
    let given = 0;
    for await (const page of this.#rounds.nextShare()) {
      for (const record of page) {
        if (record.state === 'in_doubt' || !isDue(record, now)) continue;
        given += 1;
        yield record;
        if (given >= limit) return;
      }
    }
  }

  async count(): Promise<StoreCount> {
    const counts: Record<RecordState, number> = {
      pending: 0,
      committed: 0,
      rejected: 0,
      in_doubt: 0,
    };
    for await (const record of this.#records(undefined)) counts[record.state] += 1;
    return counts;
  }

  /** The watch begins behind what was seen, so nothing is missed in between. */
  changed(id: OperationId, seen: Revision, signal: AbortSignal): Promise<void> {
    const request = watchRequest(keyOf(this.#prefix, id), seen + 1);
    return this.#link.watch(WATCH, request, watchHasNews, signal);
  }

  async close(): Promise<void> {
    this.#link.close();
  }

  async *#records(scope: string | undefined): AsyncGenerator<ScannedRecord> {
    for await (const page of this.#pages(scope)) yield* page;
  }

  async *#pages(scope: string | undefined): AsyncGenerator<readonly ScannedRecord[]> {
    const [first, end] = rangeOf(this.#prefix, scope);
    let from = first;
    for (;;) {
      const page = rangeResult(await this.#link.call(RANGE, rangeRequest(from, end, PAGE)));
      yield page.found.map((pair) => scannedIn(this.#prefix, pair));
      const last = page.found.at(-1);
      if (!page.more || last === undefined) return;
      from = Buffer.concat([last.key, Buffer.of(0)]);
    }
  }

  #writeOf(key: Buffer, expected: Revision | null, next: NextRecord | null): Uint8Array {
    if (next !== null) return putRequest(key, encodeValue(next));
    if (expected !== null) return deleteRequest(key);
    // Deleting what is not there changes nothing, and what changes nothing gets no revision.
    return putRequest(Buffer.from(`!${this.#prefix}`), new Uint8Array(0));
  }
}

function isDue({ dueAt }: ScannedRecord, now: EpochMs): boolean {
  return dueAt !== null && dueAt <= now;
}
