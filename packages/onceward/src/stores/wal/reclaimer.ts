import type { SegmentLog } from '../../segment-log/index.ts';
import { hasReadableId, IN_DOUBT, markMoved } from './record-entry.ts';
import { BUSY, FREE, UNBORN } from './record-index.ts';
import { MoveFlight, type WriteRoom } from './write-entry.ts';

/** How many records are carried over at a time: a bounded share of each batch. */
const WINDOW = 64;
/** How many rows are visited in one turn of the event loop. */
const SLICE = 16_384;
/** Each round leaves only what was being written when it passed. If that never ends, the next occasion will do. */
const MAX_ROUNDS = 100;

/**
 * Gives disk space back. Always the oldest segment: what is still needed of it is written again, and when that is
 * durable the file goes.
 *
 * Oldest first is what makes forgetting safe without any bookkeeping. An entry that forgets or replaces a record stands
 * behind every copy of what it ends, so it is dropped only after all of them: nothing can come back. A crash in between
 * leaves two copies of a record with one revision, and the replay takes the later.
 */
export class Reclaimer {
  readonly #room: WriteRoom;
  readonly #log: SegmentLog;
  readonly #slack: number;
  readonly #onStuck: (segment: number, offset: number) => void;
  #running: Promise<void> | null = null;
  #isStopped = false;

  constructor(
    room: WriteRoom,
    log: SegmentLog,
    slack: number,
    onStuck: (segment: number, offset: number) => void,
  ) {
    this.#room = room;
    this.#log = log;
    this.#slack = slack;
    this.#onStuck = onStuck;
  }

  /** Checks whether a segment can be reclaimed, and does so in the background. */
  nudge(): void {
    if (this.#running !== null || this.#isStopped || this.#candidate() === null) return;
    this.#running = this.#run().finally(() => {
      this.#running = null;
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  /**
   * The oldest segment if it is empty, or if the log is more than twice what it needs to be. Going once through such
   * a log frees at least as many bytes as it writes.
   */
  #candidate(): number | null {
    let total = 0;
    let oldest: number | null = null;
    let segments = 0;
    for (const { number, byteLength } of this.#log.segments()) {
      oldest ??= number;
      total += byteLength;
      segments++;
    }
    if (oldest === null || segments < 2) return null;
    const { table } = this.#room;
    const isWasteful = total > 2 * table.liveTotal + this.#slack;
    return table.liveBytes(oldest) === 0 || isWasteful ? oldest : null;
  }

  async #run(): Promise<void> {
    try {
      for (;;) {
        const oldest = this.#candidate();
        if (oldest === null || this.#isStopped) return;
        for (let round = 0; this.#room.table.liveBytes(oldest) > 0; round++) {
          if (round === MAX_ROUNDS || !(await this.#empty(oldest))) return;
        }
        await this.#log.dropOldest(oldest);
        this.#room.table.forgetSegment(oldest);
      }
    } catch {
      // The log has failed, and says so to every writer; or there was no room, or a file could not be removed: the
      // next occasion will show.
      if (this.#log.failure !== null) this.#isStopped = true;
    }
  }

  /** Goes once through all rows. `false`: stopped, or a record cannot be carried over. */
  async #empty(segment: number): Promise<boolean> {
    const { index } = this.#room.table;
    let window: Promise<boolean>[] = [];
    for (let row = 0; row < index.rows; row++) {
      if (row % SLICE === SLICE - 1) await new Promise((resolve) => setImmediate(resolve));
      if (this.#isStopped) return false;
      const state = index.state(row);
      if (state === FREE || state === UNBORN || index.segment(row) !== segment) continue;
      window.push(this.#move(row, segment));
      if (window.length < WINDOW) continue;
      if ((await Promise.all(window)).includes(false)) return false;
      window = [];
    }
    return !(await Promise.all(window)).includes(false);
  }

  async #move(row: number, segment: number): Promise<boolean> {
    const { table, flights } = this.#room;
    const { index } = table;
    // A write in flight decides for itself where the record will be; if it stays here, the next round finds it.
    const flight = flights.of(row, index);
    if (flight) {
      await flight.ended();
      return true;
    }
    const revision = index.revision(row);
    const offset = index.offset(row);
    const { payload, isIntact } = await this.#log.read(segment, offset, index.byteLength(row));
    const isStill = index.revision(row) === revision && index.segment(row) === segment;
    const state = index.state(row);
    if (!isStill || state === FREE || index.hasFlag(row, BUSY)) return true;
    if (isIntact) {
      markMoved(payload, state, revision, index.dueAt(row));
    } else if (hasReadableId(payload, table.id)) {
      markMoved(payload, IN_DOUBT, revision, Infinity);
    } else {
      this.#onStuck(segment, offset);
      this.#isStopped = true;
      return false;
    }
    await new Promise<void>((resolve, reject) => {
      this.#log.append(new MoveFlight(this.#room, row, payload, resolve, reject));
    });
    return true;
  }
}
