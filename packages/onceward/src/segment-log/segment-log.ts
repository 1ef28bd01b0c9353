import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { StoreError } from '../engine/errors.ts';
import { MIB } from '../engine/units.ts';
import { Batch, type LogEntry } from './batch.ts';
import type { Damage } from './damage.ts';
import { type DirectoryLock, type FileSystem, type OpenFile, writeFully } from './file-system.ts';
import { writeExtent } from './log-extent.ts';
import { type ReadEntry, Segment, segmentPath } from './segment.ts';
import { encodeSegmentHeader, SECTOR, type SegmentHeader } from './segment-format.ts';
import { SpareSegment } from './spare-segment.ts';

/** A batch is closed for writing beyond this, so that one write never holds all that waits. */
const BATCH_LIMIT = 1 * MIB;
const BATCH_CAPACITY = 64 * 1_024;
/** Batches that grew larger than this are not kept for the next use. */
const KEPT_CAPACITY = 4 * MIB;

/** A log that stays smaller than this never pays for a spare segment. */
const SPARE_FROM = 1 * MIB;
/** A segment that was not prepared is slower to write, and so ends sooner. */
const GROWING_BYTES = 8 * MIB;

/** What opening found and made; see `openSegmentLog`. */
export interface LogStart {
  readonly directory: string;
  readonly kind: string;
  readonly segmentBytes: number;
  /** See `SegmentLogOptions`. */
  readonly resumesWithRoom: boolean;
  readonly fileSystem: FileSystem;
  readonly lock: DirectoryLock;
  readonly log: Uint8Array;
  /** Oldest first. */
  readonly segments: readonly Segment[];
  readonly nextNumber: number;
  readonly previousEnd: number;
  readonly firstSequence: number;
  readonly damage: readonly Damage[];
}

/** Where an entry is, for `read`. */
export interface LogPosition {
  readonly segment: number;
  readonly offset: number;
  readonly byteLength: number;
  readonly sequence: number;
}

/**
 * Append-only segments with group commit. One writer takes everything that waits, writes it with one durable
 * write, and lets the next batch fill meanwhile; an entry is announced only when it is durable.
 *
 * A life of the log (from opening to closing or crash) writes into segments of its own and begins its
 * sequences well above all that came before: no sequence is issued twice, whatever a crash has swallowed.
 */
export class SegmentLog {
  /** Random, made when the log was created; the same for as long as it exists. */
  readonly identity: Uint8Array;
  readonly firstSequenceOfLife: number;
  readonly damage: readonly Damage[];
  readonly #start: LogStart;
  readonly #segments = new Map<number, Segment>();
  /** Those that are being removed: the extent names them no more. */
  readonly #leaving = new Set<number>();
  readonly #spare: SpareSegment;
  readonly #pool: Batch[] = [];
  readonly #full: Batch[] = [];
  #filling: Batch;
  #active: Segment | null = null;
  #capacity = 0;
  #nextNumber: number;
  #nextSequence: number;
  #previousEnd: number;
  #isScheduled = false;
  #draining: Promise<void> | null = null;
  #failure: StoreError | null = null;
  /** Entries were given up, so that the next batch does not follow on the last one: it begins a segment. */
  #hasGap = false;
  #extentWritten: Promise<void> = Promise.resolve();
  #closing: Promise<void> | null = null;

  constructor(start: LogStart) {
    this.#start = start;
    this.identity = start.log;
    this.firstSequenceOfLife = start.firstSequence;
    this.damage = start.damage;
    for (const segment of start.segments) this.#segments.set(segment.number, segment);
    this.#spare = new SpareSegment(start.fileSystem, join(start.directory, 'spare.new'));
    this.#nextNumber = start.nextNumber;
    this.#nextSequence = start.firstSequence;
    this.#previousEnd = start.previousEnd;
    this.#filling = this.#newBatch();
  }

  /** Creates the first segment of this opening, which also makes its first sequence known to the next. */
  async begin(): Promise<void> {
    this.#active = await this.#createSegment(this.#nextSequence);
    await this.#writeExtent();
  }

  /** Set once writing has failed; nothing is written any more after that. */
  get failure(): StoreError | null {
    return this.#failure;
  }

  /** The segments that exist, oldest first, and how many bytes each takes. The last one is being written. */
  *segments(): Iterable<{ readonly number: number; readonly byteLength: number }> {
    for (const { number, end } of this.#segments.values()) yield { number, byteLength: end };
  }

  /**
   * Takes the entry into the next batch and returns its sequence. Throws if the log is closed or has failed.
   *
   * A batch is written whole or, after a crash, cut off whole. With `isMoreToCome` the next entry, which must be
   * appended before anything is awaited, goes into the same batch: after a crash there are both or neither.
   */
  append(entry: LogEntry, isMoreToCome = false): number {
    this.assertWritable();
    const sequence = this.#nextSequence++;
    this.#filling.add(entry, sequence);
    if (this.#filling.used >= BATCH_LIMIT && !isMoreToCome) {
      this.#full.push(this.#filling);
      this.#filling = this.#newBatch();
    }
    this.#schedule();
    return sequence;
  }

  /** Appends bytes and resolves to where they are, once they are durable. */
  appendBytes(payload: Uint8Array): Promise<LogPosition> {
    const { length: byteLength } = payload;
    return new Promise((resolve, reject) => {
      this.append({
        byteLength,
        encode: (bytes, _view, at) => bytes.set(payload, at),
        durable: (segment, offset, sequence) => resolve({ segment, offset, byteLength, sequence }),
        failed: reject,
      });
    });
  }

  assertWritable(): void {
    if (this.#failure) throw notApplied(this.#failure);
    if (this.#closing) throw closed(this.#start.directory);
  }

  /** Reads an announced entry back. */
  async read(segment: number, offset: number, byteLength: number): Promise<ReadEntry> {
    if (this.#closing) throw closed(this.#start.directory);
    const found = this.#segments.get(segment);
    if (!found) throw new RangeError(`Segment ${segment} has been dropped.`);
    try {
      return await found.read(offset, byteLength);
    } catch (cause) {
      throw new StoreError(
        'ONCE_STORE_UNAVAILABLE',
        `Cannot read ${byteLength} bytes at ${offset} of ${found.path}: ${(cause as Error).message}.`,
        { cause, applied: 'no' },
      );
    }
  }

  /**
   * Removes the oldest segment. What it held must be worthless or durable elsewhere. Resolves when the removal is
   * durable: a later one can then never be missing while this one has come back.
   */
  async dropOldest(number: number): Promise<void> {
    const oldest = this.#segments.values().next().value;
    if (oldest?.number !== number || oldest === this.#active) {
      throw new RangeError(`Segment ${number} is not the oldest that is no longer written.`);
    }
    await this.#remove(oldest);
  }

  async #remove(segment: Segment): Promise<void> {
    const { fileSystem, directory } = this.#start;
    this.#leaving.add(segment.number);
    await this.#writeExtent();
    await fileSystem.unlink(segment.path);
    await fileSystem.syncDirectory(directory);
    this.#segments.delete(segment.number);
    this.#leaving.delete(segment.number);
    await segment.close();
  }

  /** One after the other: a segment may begin while another is being removed. */
  #writeExtent(): Promise<void> {
    const turn = this.#extentWritten.then(() => {
      const { fileSystem, directory } = this.#start;
      const [first] = [...this.#segments.keys()].filter((number) => !this.#leaving.has(number));
      const last = (this.#active as Segment).number;
      return writeExtent(fileSystem, directory, { first: first ?? last, last });
    });
    this.#extentWritten = turn.catch(() => undefined);
    return turn;
  }

  /** Writes what waits, marks the end, and releases the lock. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // Deferred, so that `#closing` is set and nothing can be appended any more.
    await null;
    while (this.#draining !== null || this.#isScheduled) {
      await (this.#draining ?? new Promise((resolve) => setImmediate(resolve)));
    }
    const active = this.#active;
    if (this.#failure === null && !this.#hasGap && active && active.end > SECTOR) {
      // An empty batch behind the last one proves to the next opening that the last one was whole.
      try {
        await this.#write(this.#filling);
      } catch (error) {
        await this.#giveUp(error, this.#filling);
      }
    }
    await this.#spare.discard();
    for (const segment of this.#segments.values()) await segment.close();
    await this.#start.lock.release();
    if (this.#failure) throw this.#failure;
  }

  #schedule(): void {
    if (this.#draining !== null || this.#isScheduled) return;
    // Everything that is appended in this turn of the event loop goes into one batch.
    this.#isScheduled = true;
    setImmediate(this.#startDraining);
  }

  readonly #startDraining = (): void => {
    this.#isScheduled = false;
    this.#draining = this.#drain();
  };

  /**
   * The next batch is taken only when this turn of the event loop is over: what acknowledged callers append in it joins
   * the group commit. Twice as many batches, begun at once, took more of the processor than they won of the disk.
   */
  async #drain(): Promise<void> {
    const batch = this.#takeBatch();
    if (batch !== null) {
      let position = -1;
      try {
        position = await this.#write(batch);
      } catch (error) {
        await this.#giveUp(error, batch);
      }
      if (position >= 0) {
        batch.announce((this.#active as Segment).number, position);
        this.#recycle(batch);
      }
    }
    this.#draining = null;
    if (this.#full.length > 0 || this.#filling.count > 0) this.#schedule();
  }

  #takeBatch(): Batch | null {
    const full = this.#full.shift();
    if (full) return full;
    if (this.#filling.count === 0) return null;
    const batch = this.#filling;
    this.#filling = this.#newBatch();
    return batch;
  }

  /** Resolves to where in the active segment the batch is, once it is durable. */
  async #write(batch: Batch): Promise<number> {
    const { sealedLength } = batch;
    let active = this.#active as Segment;
    const isFull = active.end + sealedLength > this.#capacity && active.end > SECTOR;
    if (isFull || this.#hasGap) active = await this.#advance(batch.firstSequence);
    const position = active.end;
    await writeFully(active.file, batch.seal(active.header.nonce), position);
    active.end = position + sealedLength;
    this.#previousEnd = batch.firstSequence + batch.count;
    if (active.end > SPARE_FROM) this.#spare.prepare(this.#start.segmentBytes);
    return position;
  }

  /** Begins a segment. One before it that stayed empty goes: while there is no room, they would pile up. */
  async #advance(firstSequence: number): Promise<Segment> {
    const before = this.#active as Segment;
    const active = await this.#createSegment(firstSequence);
    this.#active = active;
    await this.#writeExtent();
    this.#hasGap = false;
    if (before.end <= SECTOR) await this.#remove(before);
    return active;
  }

  /**
   * A segment gets its name only when its header is durable, and is written to only when its name is: whatever the
   * moment of a crash, a named segment has a header, and a batch has a named segment.
   */
  async #createSegment(firstSequence: number): Promise<Segment> {
    const { fileSystem, directory, kind, log } = this.#start;
    const number = this.#nextNumber++;
    const random = randomBytes(8);
    const header: SegmentHeader = {
      number,
      kind,
      log,
      nonce: { low: random.readUInt32LE(0), high: random.readUInt32LE(4) },
      firstSequence,
      previousEnd: this.#previousEnd,
    };
    const path = segmentPath(directory, number);
    const spare = await this.#spare.take();
    this.#capacity = Math.min(this.#start.segmentBytes, spare ? Infinity : GROWING_BYTES);
    const temporary = spare ?? `${path}.new`;
    try {
      const blank: OpenFile = await fileSystem.open(temporary, spare ? 'write' : 'create');
      try {
        await writeFully(blank, encodeSegmentHeader(header), 0);
        await blank.sync();
      } finally {
        await blank.close();
      }
    } catch (error) {
      await fileSystem.unlink(temporary).catch(() => undefined);
      throw error;
    }
    try {
      await fileSystem.rename(temporary, path);
      await fileSystem.syncDirectory(directory);
    } catch (cause) {
      throw new NameInDoubt(cause);
    }
    const segment = new Segment(path, header, await fileSystem.open(path, 'write-through'));
    this.#segments.set(number, segment);
    return segment;
  }

  async #giveUp(cause: unknown, batch: Batch): Promise<void> {
    if (this.#start.resumesWithRoom && isOutOfRoom(cause) && (await this.#takeBack())) {
      this.#hasGap = true;
      this.#failAll(batch, noRoom(this.#start.directory, cause));
      return;
    }
    const error = cause instanceof NameInDoubt ? cause.cause : cause;
    const failure = stopped(this.#start.directory, error);
    this.#failure = failure;
    this.#failAll(batch, failure);
  }

  /**
   * Cuts off what a write without room has left behind. Everything before it was durable when it was announced, so once
   * the cut is durable too the log is exactly what it was. After any other failure it is unknown what a sync
   * has dropped, and the log stays stopped.
   */
  async #takeBack(): Promise<boolean> {
    const { file, end } = this.#active as Segment;
    try {
      await file.truncate(end);
      await file.sync();
      return true;
    } catch {
      return false;
    }
  }

  #failAll(batch: Batch, error: StoreError): void {
    batch.fail(error);
    const never = notApplied(error);
    for (const waiting of [...this.#full.splice(0), this.#filling]) waiting.fail(never);
    this.#filling = this.#newBatch();
  }

  #newBatch(): Batch {
    const batch = this.#pool.pop() ?? new Batch(BATCH_CAPACITY);
    batch.reset(this.#nextSequence);
    return batch;
  }

  #recycle(batch: Batch): void {
    if (batch.capacity > KEPT_CAPACITY || this.#pool.length >= 4) return;
    batch.reset(0);
    this.#pool.push(batch);
  }
}

/** A segment may or may not have got its name: only the next opening finds out. */
class NameInDoubt extends Error {
  constructor(cause: unknown) {
    super('a segment may or may not have its name', { cause });
  }
}

const NO_ROOM = new Set(['ENOSPC', 'EDQUOT']);

function isOutOfRoom(error: unknown): boolean {
  return NO_ROOM.has((error as NodeJS.ErrnoException).code ?? '');
}

function noRoom(directory: string, cause: unknown): StoreError {
  return new StoreError(
    'ONCE_STORE_UNAVAILABLE',
    `There is no room left to write to ${directory} (${(cause as Error).message}). Nothing was written. Make room; the ` +
      'store goes on by itself.',
    { cause, applied: 'no' },
  );
}

function stopped(directory: string, cause: unknown): StoreError {
  return new StoreError(
    'ONCE_STORE_FAILED',
    `Writing to ${directory} failed (${(cause as Error).message}). Nothing more is written; what was acknowledged ` +
      'is kept. Fix the disk or make room, then open the store again.',
    { cause, applied: 'unknown' },
  );
}

function notApplied(failure: StoreError): StoreError {
  return new StoreError(failure.code, failure.message, { cause: failure.cause, applied: 'no' });
}

function closed(directory: string): StoreError {
  return new StoreError(
    'ONCE_STORE_FAILED',
    `The store in ${directory} has been closed. Open it again.`,
    { applied: 'no' },
  );
}
