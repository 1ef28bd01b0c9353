import type { StoreError } from '../../engine/errors.ts';
import type { OperationId } from '../../engine/record.ts';
import type { SwapResult } from '../../engine/record-store.ts';
import type { LogEntry } from '../../segment-log/index.ts';
import type { Recent } from '../recent.ts';
import {
  dueAtOf,
  FORGET_HEADER,
  FORGET_ITEM,
  FORGOTTEN,
  PENDING,
  RECORD_HEADER,
  stateOf,
  writeForgetItem,
  writeRecord,
} from './record-entry.ts';
import { BUSY, DAMAGED, type RecordIndex, UNBORN } from './record-index.ts';
import type { RecordTable } from './record-table.ts';

/** What writes need of the store around them. */
export interface WriteRoom {
  readonly table: RecordTable;
  /** The writes in flight: a row that has one is left alone. */
  readonly flights: Flights;
  /** Notifies the waiters of this record; `null`: for any, as it is not known whose records have changed. */
  wake(id: OperationId | null): void;
  /** The rows of claims, for those who settle them. */
  readonly claims: Recent<number>;
  /** A record became durable in this segment. */
  landed(segment: number): void;
}

/**
 * The writes in flight. One comes and one goes with every swap, but hardly ever is one looked up: that is why they are
 * a list and not a map, which would pay for each.
 */
export class Flights {
  readonly #flights: Flight[] = [];

  /** The write that holds this row, if there is one. */
  of(row: number, index: RecordIndex): Flight | null {
    if (!index.hasFlag(row, BUSY)) return null;
    return this.#flights.find((flight) => flight.holds(row)) ?? null;
  }

  add(flight: Flight): void {
    flight.place = this.#flights.length;
    this.#flights.push(flight);
  }

  remove(flight: Flight): void {
    const last = this.#flights.pop() as Flight;
    if (last === flight) return;
    last.place = flight.place;
    this.#flights[flight.place] = last;
  }
}

/** A write in flight. It holds its rows until it is durable, or has failed without a trace. */
export abstract class Flight implements LogEntry {
  abstract readonly byteLength: number;
  /** Set when it failed and may or may not be on disk: its rows are then never released. */
  failure: StoreError | null = null;
  /** Among the flights. */
  place = -1;
  #waiters: (() => void)[] | null = null;

  abstract encode(bytes: Buffer, view: DataView, at: number, sequence: number): void;
  abstract durable(segment: number, offset: number, sequence: number): void;
  abstract failed(error: StoreError): void;

  abstract holds(row: number): boolean;

  /** Whose record it writes, where one is known. */
  abstract concerns(id: OperationId): boolean;

  ended(): Promise<void> {
    if (this.failure) return Promise.reject(this.failure);
    return new Promise((resolve) => {
      this.#waiters ??= [];
      this.#waiters.push(resolve);
    });
  }

  protected end(): void {
    if (this.#waiters === null) return;
    for (const resolve of this.#waiters) resolve();
    this.#waiters = null;
  }
}

export abstract class RowFlight extends Flight {
  readonly row: number;
  protected readonly room: WriteRoom;

  constructor(room: WriteRoom, row: number) {
    super();
    this.room = room;
    this.row = row;
    room.flights.add(this);
    room.table.index.setFlag(row, BUSY);
  }

  holds(row: number): boolean {
    return row === this.row;
  }

  protected release(): void {
    this.room.flights.remove(this);
    this.room.table.index.clearFlag(this.row, BUSY);
    this.end();
  }

  failed(error: StoreError): void {
    if (error.applied === 'unknown') this.failure = error;
    const { table } = this.room;
    const isUnborn = table.index.state(this.row) === UNBORN;
    if (this.failure === null) {
      this.room.flights.remove(this);
      if (isUnborn) table.remove(this.row);
      else table.index.clearFlag(this.row, BUSY);
    }
    this.reject(error);
    this.end();
  }

  protected abstract reject(error: StoreError): void;
}

/** Writes a record, new or in the place of another. */
export class PutFlight extends RowFlight {
  readonly byteLength: number;
  readonly #id: OperationId;
  readonly #state: number;
  readonly #dueAt: number;
  readonly #previous: number;
  #bytes: Uint8Array | null;
  resolve!: (result: SwapResult) => void;
  reject!: (error: unknown) => void;

  constructor(
    room: WriteRoom,
    row: number,
    id: OperationId,
    state: number,
    dueAt: number,
    previous: number,
    bytes: Uint8Array,
  ) {
    super(room, row);
    this.#id = id;
    this.#state = state;
    this.#dueAt = dueAt;
    this.#previous = previous;
    this.#bytes = bytes;
    this.byteLength = RECORD_HEADER + room.table.id.length + bytes.length;
  }

  encode(bytes: Buffer, view: DataView, at: number): void {
    const own = this.#bytes as Uint8Array;
    // The table's id is still ours: nothing has been awaited since it was loaded.
    const { id } = this.room.table;
    writeRecord(bytes, view, at, id, this.#state, this.#dueAt, this.#previous, own);
    this.#bytes = null;
  }

  durable(segment: number, offset: number, sequence: number): void {
    const { table } = this.room;
    table.settle(this.row, sequence, this.#state, this.#dueAt, segment, offset, this.byteLength);
    table.index.clearFlag(this.row, DAMAGED);
    this.release();
    if (this.#state === PENDING) this.room.claims.note(this.#id, sequence, this.row);
    this.room.landed(segment);
    this.resolve({ won: true, revision: sequence });
    this.room.wake(this.#id);
  }

  concerns(id: OperationId): boolean {
    return this.#id.key === id.key && this.#id.scope === id.scope;
  }
}

/** Forgets the records of some rows with one entry. */
export class ForgetFlight extends Flight {
  readonly byteLength: number;
  readonly #room: WriteRoom;
  readonly #rows: readonly number[];
  readonly #id: OperationId | null;
  readonly #resolve: (sequence: number) => void;
  readonly #reject: (error: StoreError) => void;

  /** `id` names the one record that is forgotten, where the caller named one. */
  constructor(
    room: WriteRoom,
    rows: readonly number[],
    id: OperationId | null,
    resolve: (sequence: number) => void,
    reject: (error: StoreError) => void,
  ) {
    super();
    this.#room = room;
    this.#rows = rows;
    this.#id = id;
    this.#resolve = resolve;
    this.#reject = reject;
    this.byteLength = FORGET_HEADER + FORGET_ITEM * rows.length;
    room.flights.add(this);
    for (const row of rows) room.table.index.setFlag(row, BUSY);
  }

  holds(row: number): boolean {
    return this.#rows.includes(row);
  }

  encode(bytes: Buffer, view: DataView, at: number): void {
    const { index } = this.#room.table;
    bytes.fill(0, at, at + FORGET_HEADER);
    bytes[at] = FORGOTTEN;
    let item = at + FORGET_HEADER;
    for (const row of this.#rows) {
      writeForgetItem(view, item, index.hash1(row), index.hash2(row), index.revision(row));
      item += FORGET_ITEM;
    }
  }

  durable(_segment: number, _offset: number, sequence: number): void {
    const { table, flights } = this.#room;
    flights.remove(this);
    for (const row of this.#rows) table.remove(row);
    this.end();
    this.#resolve(sequence);
    this.#room.wake(this.#id);
  }

  failed(error: StoreError): void {
    const { table, flights } = this.#room;
    if (error.applied === 'unknown') {
      this.failure = error;
    } else {
      flights.remove(this);
      for (const row of this.#rows) table.index.clearFlag(row, BUSY);
    }
    this.#reject(error);
    this.end();
  }

  concerns(id: OperationId): boolean {
    // Of a sweep the ids are not known here; to wait for it is right in any case.
    return this.#id === null || (this.#id.key === id.key && this.#id.scope === id.scope);
  }
}

/** Carries a record over from a segment that is to be dropped. */
export class MoveFlight extends RowFlight {
  readonly byteLength: number;
  readonly #payload: Buffer;
  readonly #resolve: () => void;
  readonly #reject: (error: StoreError) => void;

  /** `payload` says itself, in its header, that it was moved and what state the record is in. */
  constructor(
    room: WriteRoom,
    row: number,
    payload: Buffer,
    resolve: () => void,
    reject: (error: StoreError) => void,
  ) {
    super(room, row);
    this.#payload = payload;
    this.byteLength = payload.length;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  encode(bytes: Buffer, _view: DataView, at: number): void {
    this.#payload.copy(bytes, at);
  }

  durable(segment: number, offset: number): void {
    const { table } = this.room;
    const { index } = table;
    const { row } = this;
    table.settle(
      row,
      index.revision(row),
      stateOf(this.#payload),
      dueAtOf(this.#payload),
      segment,
      offset,
      this.byteLength,
    );
    this.release();
    this.#resolve();
  }

  protected reject(error: StoreError): void {
    this.#reject(error);
  }

  concerns(): boolean {
    return true;
  }
}
