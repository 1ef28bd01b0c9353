import type { OperationId, RecordState } from '../../engine/record.ts';
import type { DamagedEntry, LogReader } from '../../segment-log/index.ts';
import { IdBytes } from './id-bytes.ts';
import {
  FORGET_HEADER,
  FORGET_ITEM,
  FORGOTTEN,
  hasReadableId,
  IN_DOUBT,
  MOVED,
  STATES,
} from './record-entry.ts';
import { DAMAGED, RecordIndex, UNBORN } from './record-index.ts';

/** What an entry takes in its segment beside its payload. */
const FRAME_BYTES = 16;

/**
 * What is durable: the index, and what follows from it: how many records there are in each state, and how many bytes
 * of each segment are still needed. Built by replaying the log, then kept up by each write that became durable.
 */
export class RecordTable implements LogReader {
  readonly index = new RecordIndex();
  /** Loaded by the caller of a lookup; see `IdBytes`. */
  readonly id: IdBytes;
  readonly #counts = [0, 0, 0, 0, 0, 0];
  readonly #liveBytes = new Map<number, { bytes: number }>();
  #liveTotal = 0;
  #sawDamage = false;

  constructor(id = new IdBytes()) {
    this.id = id;
  }

  get liveTotal(): number {
    return this.#liveTotal;
  }

  count(state: RecordState): number {
    return this.#counts[STATES.indexOf(state) + 1] as number;
  }

  liveBytes(segment: number): number {
    return this.#liveBytes.get(segment)?.bytes ?? 0;
  }

  forgetSegment(segment: number): void {
    this.#liveBytes.delete(segment);
  }

  /** Loads the id of this row. */
  loadHashed(id: OperationId, row: number): void {
    const { index } = this;
    this.id.loadHashed(id, index.hash1(row), index.hash2(row), index.scopeHash(row));
  }

  /** The record of `row` is now what stands at this place. */
  settle(
    row: number,
    revision: number,
    state: number,
    dueAt: number,
    segment: number,
    offset: number,
    byteLength: number,
  ): void {
    const { index } = this;
    const before = index.state(row);
    if (before !== UNBORN) this.#leave(row, before);
    index.settle(row, revision, state, dueAt, segment, offset, byteLength);
    this.#counts[state] = (this.#counts[state] as number) + 1;
    this.#weigh(segment, byteLength + FRAME_BYTES);
  }

  remove(row: number): void {
    const before = this.index.state(row);
    if (before !== UNBORN) this.#leave(row, before);
    this.index.remove(row);
  }

  begin(identity: Uint8Array): void {
    this.id.seed(identity);
  }

  entry(
    _bytes: Buffer,
    view: DataView,
    at: number,
    length: number,
    sequence: number,
    segment: number,
  ): void {
    const payload = at + FRAME_BYTES;
    const kind = view.getUint8(payload);
    if (kind === FORGOTTEN) {
      this.#replayForget(view, payload, length);
      return;
    }
    const hash1 = view.getUint32(payload + 8, true);
    const hash2 = view.getUint32(payload + 12, true);
    const revisionField = view.getFloat64(payload + 24, true);
    const revision = kind === MOVED ? revisionField : sequence;
    let row = this.#rowOf(hash1, hash2, revisionField);
    if (row < 0) {
      row = this.index.insert(hash1, hash2, view.getUint32(payload + 16, true), revision);
    }
    this.index.clearFlag(row, DAMAGED);
    const state = view.getUint8(payload + 1);
    this.settle(row, revision, state, view.getFloat64(payload + 32, true), segment, at, length);
  }

  damage(): void {
    this.#sawDamage = true;
  }

  /**
   * A damaged entry whose id is proven stands for its record, in doubt: what was written last about this operation
   * cannot be trusted, and what was written before it must not be taken for the last.
   */
  damagedEntry(entry: DamagedEntry): boolean {
    this.#sawDamage = true;
    const { payload, sequence, segment, offset } = entry;
    if (!hasReadableId(payload, this.id)) return false;
    const { hash1, hash2, scopeHash } = this.id;
    const stated = payload[0] === MOVED ? payload.readDoubleLE(24) : sequence;
    const isPlausible = Number.isSafeInteger(stated) && stated > 0 && stated <= sequence;
    const revision = isPlausible ? stated : sequence;
    let row = this.index.find(hash1, hash2);
    if (row < 0) row = this.index.insert(hash1, hash2, scopeHash, revision);
    this.settle(row, revision, IN_DOUBT, Infinity, segment, offset, payload.length);
    this.index.setFlag(row, DAMAGED);
    return true;
  }

  #replayForget(view: DataView, payload: number, length: number): void {
    for (let at = payload + FORGET_HEADER; at < payload + length; at += FORGET_ITEM) {
      const hash1 = view.getUint32(at, true);
      const hash2 = view.getUint32(at + 4, true);
      const row = this.#rowOf(hash1, hash2, view.getFloat64(at + 8, true));
      if (row >= 0) this.remove(row);
    }
  }

  /** Once something was damaged, the chain of revisions may have a gap, and the 64-bit hash alone must do. */
  #rowOf(hash1: number, hash2: number, revision: number): number {
    if (this.#sawDamage) return this.index.find(hash1, hash2);
    return revision === 0 ? -1 : this.index.findRevision(hash1, hash2, revision);
  }

  #leave(row: number, state: number): void {
    this.#counts[state] = (this.#counts[state] as number) - 1;
    this.#weigh(this.index.segment(row), -(this.index.byteLength(row) + FRAME_BYTES));
  }

  #weigh(segment: number, change: number): void {
    const live = this.#liveBytes.get(segment);
    if (live === undefined) this.#liveBytes.set(segment, { bytes: change });
    else live.bytes += change;
    this.#liveTotal += change;
  }
}
