import { StoreError } from '../../engine/errors.ts';
import type { OperationId, Revision } from '../../engine/record.ts';
import type {
  InsertedRecord,
  NextRecord,
  RecordStore,
  ScannedRecord,
  ScanQuery,
  StoreCount,
  StoredRecord,
  StoreTraits,
  SwapResult,
} from '../../engine/record-store.ts';
import type { EpochMs } from '../../engine/units.ts';
import type { Damage, SegmentLog } from '../../segment-log/index.ts';
import { Recent } from '../recent.ts';
import { assertFits } from '../record-size.ts';
import { Reclaimer } from './reclaimer.ts';
import {
  bytesOf,
  COMMITTED,
  hasReadableId,
  idOf,
  keyLengthOf,
  RECORD_HEADER,
  REJECTED,
  STATES,
  scopeLengthOf,
  stateNumber,
} from './record-entry.ts';
import { BUSY, FREE, UNBORN } from './record-index.ts';
import type { RecordTable } from './record-table.ts';
import { Watchers } from './watchers.ts';
import { Flights, ForgetFlight, PutFlight, type WriteRoom } from './write-entry.ts';

/** How many rows one call of `forgetDue` visits: a few milliseconds. Where it stopped, the next one goes on. */
const SWEEP_ROWS = 262_144;
const SWEEP_LIMIT = 16_384;
/** How many records a scan reads at a time. */
const SCAN_WINDOW = 32;

type Others = Map<number, number>;

/**
 * Records in a write-ahead log on this machine's disk, for one process at a time.
 *
 * A swap resolves when it is durable. Until then it is invisible: a read shows what was durable before, and another
 * swap of the same record waits, because only then is it known who won.
 */
export class WalStore implements RecordStore {
  readonly traits: StoreTraits;
  readonly #log: SegmentLog;
  readonly #table: RecordTable;
  readonly #flights = new Flights();
  readonly #claims = new Recent<number>();
  readonly #watchers = new Watchers();
  readonly #room: WriteRoom;
  readonly #reclaimer: Reclaimer;
  readonly #damage: Damage[];
  readonly #onDamage: (damage: Damage) => void;
  #sweepRow = 0;
  #unborn = 0;
  #lastSegment = 0;
  #closing: Promise<void> | null = null;

  constructor(
    log: SegmentLog,
    table: RecordTable,
    maxRecordBytes: number,
    slack: number,
    onDamage: (damage: Damage) => void,
  ) {
    this.#log = log;
    this.#table = table;
    this.#damage = [...log.damage];
    this.#onDamage = onDamage;
    this.traits = {
      name: 'wal',
      durability: 'machine',
      maxRecordBytes,
      firstRevisionOfLife: log.firstSequenceOfLife,
    };
    this.#room = {
      table,
      flights: this.#flights,
      wake: (id) => this.#watchers.wake(id),
      claims: this.#claims,
      landed: (segment) => this.#noteSegment(segment),
    };
    this.#reclaimer = new Reclaimer(this.#room, log, slack, (segment, offset) =>
      this.#reportUnreadable(segment, offset),
    );
    for (const damage of this.#damage) onDamage(damage);
    this.#reclaimer.nudge();
  }

  /** What was found damaged, when the store was opened and since. */
  get damage(): readonly Damage[] {
    return this.#damage;
  }

  async read(id: OperationId): Promise<StoredRecord | null> {
    const others: Others = new Map();
    for (;;) {
      this.#assertOpen();
      this.#table.id.load(id);
      const row = this.#find(others);
      if (row < 0) return null;
      const { index } = this.#table;
      const flight = this.#flights.of(row, index);
      if (flight?.failure) throw flight.failure;
      if (index.state(row) === UNBORN) {
        if (flight?.concerns(id)) return null;
        others.set(row, index.revision(row));
        continue;
      }
      const record = await this.#readAs(row, id, others);
      if (record) return record;
    }
  }

  swap(id: OperationId, expected: Revision | null, next: NextRecord | null): Promise<SwapResult> {
    try {
      this.#assertOpen();
      assertFits(next, this.traits);
      const recent = this.#findRecent(id, expected);
      if (recent >= 0) {
        this.#table.loadHashed(id, recent);
        return this.#write(recent, id, next);
      }
      this.#table.id.load(id);
      const row = this.#find(null);
      if (row < 0) {
        if (expected !== null) return Promise.resolve({ won: false, current: null });
        return this.#write(-1, id, next);
      }
      const { index } = this.#table;
      // A revision belongs to one record of one id for ever, so that a match need not read the stored id.
      if (!index.hasFlag(row, BUSY) && index.revision(row) === expected) {
        return this.#write(row, id, next);
      }
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#contend(id, expected, next);
  }

  /** In one batch of the log, which a crash leaves whole or not at all. */
  insertAll(records: readonly InsertedRecord[]): Promise<readonly Revision[] | null> {
    try {
      this.#assertOpen();
      this.#log.assertWritable();
      for (const { next } of records) assertFits(next, this.traits);
      for (const { id } of records) {
        this.#table.id.load(id);
        // Also when another id has the same hash: then the swaps find out which of the two it is.
        if (this.#find(null) >= 0) return Promise.resolve(null);
      }
    } catch (error) {
      return Promise.reject(error);
    }
    return new Promise((resolve, reject) => {
      const revisions: Revision[] = [];
      const last = records.length - 1;
      records.forEach(({ id, next }, i) => {
        this.#table.id.load(id);
        const flight = this.#putFlight(-1, id, next);
        flight.reject = reject;
        flight.resolve = (result) => {
          if (result.won) revisions.push(result.revision);
          if (i === last) resolve(revisions);
        };
        this.#log.append(flight, i < last);
      });
    });
  }

  async *scan(query: ScanQuery): AsyncIterable<ScannedRecord> {
    this.#assertOpen();
    const { index } = this.#table;
    const scopeHash = this.#scopeHash(query.scope);
    let remaining = query.limit;
    let row = 0;
    while (remaining > 0 && row < index.rows) {
      const rows: number[] = [];
      for (; row < index.rows && rows.length < Math.min(SCAN_WINDOW, remaining); row++) {
        if (this.#isAsked(row, query, scopeHash)) rows.push(row);
      }
      const records = await Promise.all(rows.map((one) => this.#readScanned(one)));
      for (const record of records) {
        if (record === null || remaining === 0) continue;
        if (query.scope !== undefined && record.id.scope !== query.scope) continue;
        remaining--;
        yield record;
      }
    }
  }

  async count(): Promise<StoreCount> {
    this.#assertOpen();
    const table = this.#table;
    return {
      pending: table.count('pending'),
      committed: table.count('committed'),
      rejected: table.count('rejected'),
      in_doubt: table.count('in_doubt'),
    };
  }

  async forgetDue(now: EpochMs, limit: number): Promise<number> {
    this.#assertOpen();
    const { index } = this.#table;
    const rows: number[] = [];
    const wanted = Math.min(limit, SWEEP_LIMIT);
    for (let left = Math.min(index.rows, SWEEP_ROWS); left > 0 && rows.length < wanted; left--) {
      const row = this.#sweepRow < index.rows ? this.#sweepRow : 0;
      this.#sweepRow = row + 1;
      const state = index.state(row);
      if (state !== COMMITTED && state !== REJECTED) continue;
      if (index.dueAt(row) <= now && !index.hasFlag(row, BUSY)) rows.push(row);
    }
    if (rows.length > 0) await this.#forget(rows, null);
    return rows.length;
  }

  async changed(id: OperationId, seen: Revision, signal: AbortSignal): Promise<void> {
    if (this.#closing || signal.aborted) return;
    this.#table.id.load(id);
    const row = this.#find(null);
    if (row < 0 || this.#table.index.revision(row) !== seen) return;
    await this.#watchers.watch(id, signal);
  }

  /** Writes what is in flight, then releases the folder. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#reclaimer.stop();
    this.#watchers.wake(null);
    await this.#log.close();
  }

  /** The slow path of a swap: another write of this record is in flight, or came before. */
  async #contend(
    id: OperationId,
    expected: Revision | null,
    next: NextRecord | null,
  ): Promise<SwapResult> {
    const { index } = this.#table;
    const others: Others = new Map();
    for (;;) {
      this.#assertOpen();
      this.#log.assertWritable();
      this.#table.id.load(id);
      const row = this.#find(others);
      if (row < 0) {
        return expected === null ? this.#write(-1, id, next) : { won: false, current: null };
      }
      const flight = this.#flights.of(row, index);
      if (flight?.concerns(id)) {
        await flight.ended();
      } else if (flight && index.state(row) === UNBORN) {
        others.set(row, index.revision(row));
      } else if (!flight && index.revision(row) === expected) {
        return this.#write(row, id, next);
      } else {
        const current = await this.#readAs(row, id, others);
        if (current) return { won: false, current };
      }
    }
  }

  /** Everything from the lookup of the row to here happens in one turn: nothing came in between. */
  #write(row: number, id: OperationId, next: NextRecord | null): Promise<SwapResult> {
    if (next === null) {
      const forgotten = this.#forget(row < 0 ? [] : [row], id);
      return forgotten.then((revision) => ({ won: true, revision }));
    }
    this.#log.assertWritable();
    const flight = this.#putFlight(row, id, next);
    return new Promise((resolve, reject) => {
      flight.resolve = resolve;
      flight.reject = reject;
      this.#log.append(flight);
    });
  }

  /** The id must be the one that is loaded, and the flight be appended before another is. */
  #putFlight(row: number, id: OperationId, next: NextRecord): PutFlight {
    const { index, id: loaded } = this.#table;
    const previous = row < 0 ? 0 : index.revision(row);
    const target =
      row < 0
        ? // Not yet a revision, but as unique as one.
          index.insert(loaded.hash1, loaded.hash2, loaded.scopeHash, --this.#unborn)
        : row;
    return new PutFlight(
      this.#room,
      target,
      id,
      stateNumber(next.state),
      next.dueAt ?? Infinity,
      previous,
      next.bytes,
    );
  }

  #forget(rows: readonly number[], id: OperationId | null): Promise<number> {
    this.#log.assertWritable();
    return new Promise<number>((resolve, reject) => {
      this.#log.append(new ForgetFlight(this.#room, rows, id, resolve, reject));
    }).finally(() => this.#reclaimer.nudge());
  }

  /** The row of a record that was written lately, if this is still its revision and no write of it is in flight. */
  #findRecent(id: OperationId, revision: Revision | null): number {
    if (revision === null) return -1;
    const { index } = this.#table;
    const row = this.#claims.take(id, revision);
    if (row === null || index.revision(row) !== revision) return -1;
    return index.state(row) === FREE || index.hasFlag(row, BUSY) ? -1 : row;
  }

  #find(others: Others | null): number {
    const { index, id } = this.#table;
    return index.find(id.hash1, id.hash2, others);
  }

  /** The record of the row if it is that of `id`; otherwise it is noted among the others. */
  async #readAs(row: number, id: OperationId, others: Others): Promise<StoredRecord | null> {
    const { index } = this.#table;
    const revision = index.revision(row);
    const { payload, isIntact } = await this.#log.read(
      index.segment(row),
      index.offset(row),
      index.byteLength(row),
    );
    const loaded = this.#table.id;
    loaded.load(id);
    const lengths = [scopeLengthOf(payload), keyLengthOf(payload)] as const;
    if (loaded.stands(payload, RECORD_HEADER, ...lengths)) {
      return { revision, bytes: bytesOf(payload) };
    }
    if (isIntact) {
      others.set(row, revision);
      return null;
    }
    // The id itself is damaged, but its hash led here: as it is, the engine will find the record unreadable.
    return {
      revision,
      bytes: payload.subarray(Math.min(RECORD_HEADER + loaded.length, payload.length)),
    };
  }

  #scopeHash(scope: string | undefined): number | null {
    if (scope === undefined) return null;
    this.#table.id.load({ scope, key: '' });
    return this.#table.id.scopeHash;
  }

  #isAsked(row: number, { states, dueBefore }: ScanQuery, scopeHash: number | null): boolean {
    const { index } = this.#table;
    const state = index.state(row);
    if (state === FREE || state === UNBORN) return false;
    if (states && !states.some((one) => stateNumber(one) === state)) return false;
    if (dueBefore !== undefined && !(index.dueAt(row) <= dueBefore)) return false;
    return scopeHash === null || index.scopeHash(row) === scopeHash;
  }

  async #readScanned(row: number): Promise<ScannedRecord | null> {
    const { index } = this.#table;
    const revision = index.revision(row);
    const state = STATES[index.state(row) - 1];
    const dueAt = index.dueAt(row);
    const segment = index.segment(row);
    const offset = index.offset(row);
    const entry = await this.#log.read(segment, offset, index.byteLength(row));
    if (!entry.isIntact && !hasReadableId(entry.payload, this.#table.id)) {
      this.#reportUnreadable(segment, offset);
      return null;
    }
    if (state === undefined) return null;
    const id = idOf(entry.payload);
    const bytes = bytesOf(entry.payload);
    return { id, revision, bytes, state, dueAt: dueAt === Infinity ? null : dueAt };
  }

  /** Each new segment is an occasion to check whether an old one can be reclaimed. */
  #noteSegment(segment: number): void {
    if (segment === this.#lastSegment) return;
    this.#lastSegment = segment;
    this.#reclaimer.nudge();
  }

  #reportUnreadable(segment: number, offset: number): void {
    const damage = {
      file: `segment ${segment}`,
      offset,
      byteLength: 0,
      finding: 'a record has become unreadable since the store was opened',
      sequence: 0,
      entries: 1,
    };
    if (this.#damage.some((known) => known.file === damage.file && known.offset === offset)) return;
    this.#damage.push(damage);
    this.#onDamage(damage);
  }

  #assertOpen(): void {
    if (this.#closing === null) return;
    throw new StoreError('ONCE_STORE_FAILED', 'The store has been closed. Open it again.', {
      applied: 'no',
    });
  }
}
