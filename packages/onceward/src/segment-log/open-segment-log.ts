import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { StoreError } from '../engine/errors.ts';
import { MIB } from '../engine/units.ts';
import type { Damage } from './damage.ts';
import { type FileSystem, type OpenFile, writeFully } from './file-system.ts';
import { readExtent } from './log-extent.ts';
import { nodeFileSystem } from './node-file-system.ts';
import { Segment, segmentNumber, segmentPath } from './segment.ts';
import {
  decodeSegmentHeader,
  FORMAT_VERSION,
  type HeaderFinding,
  SECTOR,
  type SegmentHeader,
} from './segment-format.ts';
import { SegmentLog } from './segment-log.ts';
import { type ReplayedSegment, type ReplaySink, SegmentReplay } from './segment-replay.ts';

export interface SegmentLogOptions {
  readonly directory: string;
  /** What the log is for, up to eight ASCII characters: a log of another kind is refused. */
  readonly kind: string;
  /** Called for what the log holds, in order, before it opens. */
  readonly replay: LogReader;
  /** Where a new segment begins. */
  readonly segmentBytes?: number;
  /** Open although entries are lost. Without it the log refuses, because what is missing might matter. */
  readonly acceptDamage?: boolean;
  /**
   * A write for which there is no room is taken back, with all that were appended after it, and the log goes on when
   * there is. For users whose next entry never builds on one that failed. Without it the log stops.
   */
  readonly resumesWithRoom?: boolean;
  readonly fileSystem?: FileSystem;
}

export interface LogReader extends Pick<ReplaySink, 'entry' | 'damagedEntry'> {
  /** Something cannot be read; what follows may refer to entries that are missing. */
  damage?(damage: Damage): void;
  /** The log's identity, before any entry of it. */
  begin?(identity: Uint8Array): void;
}

const DEFAULT_SEGMENT_BYTES = 64 * MIB;

/**
 * How far the sequences of an opening begin above the last one known. Covers whatever was in flight, unacknowledged and
 * unseen, when the process before ended; 2^53 leaves room for eight billion openings.
 */
const SEQUENCE_GAP = 2 ** 20;

/** Opens or creates the log in a folder, replays it, cuts a torn tail, and begins a new life. */
export async function openSegmentLog(options: SegmentLogOptions): Promise<SegmentLog> {
  const { directory, fileSystem = nodeFileSystem } = options;
  await asConfiguration(directory, fileSystem.makeDirectory(directory));
  // Before the lock, which is itself a write: a folder that is not ours is left exactly as it is.
  for (const number of await listSegments(options)) await inspect(options, number);
  const lock = await asConfiguration(directory, fileSystem.lock(directory));
  const opening = new Opening(options);
  try {
    await opening.replayAll();
    await opening.removeLeftovers();
    const log = new SegmentLog({ ...opening.found(), lock });
    await log.begin();
    await opening.removeEmpty(log);
    return log;
  } catch (error) {
    await opening.abandon();
    await lock.release();
    throw asStoreError(directory, error);
  }
}

class Opening {
  readonly #options: SegmentLogOptions;
  readonly #fileSystem: FileSystem;
  readonly #segments: Segment[] = [];
  readonly #damage: Damage[] = [];
  readonly #sink: ReplaySink;
  #identity: Uint8Array | null = null;
  #lastNumber = 0;
  #nextSequence = 1;
  #highest = 0;

  constructor(options: SegmentLogOptions) {
    this.#options = options;
    this.#fileSystem = options.fileSystem ?? nodeFileSystem;
    const { replay } = options;
    this.#sink = {
      entry: (bytes, view, at, length, sequence, segment) =>
        replay.entry(bytes, view, at, length, sequence, segment),
      damagedEntry: (entry) => replay.damagedEntry(entry),
      damage: (damage) => this.#report(damage),
    };
  }

  found() {
    const { directory, kind, segmentBytes = DEFAULT_SEGMENT_BYTES } = this.#options;
    return {
      directory,
      kind,
      segmentBytes,
      resumesWithRoom: this.#options.resumesWithRoom === true,
      fileSystem: this.#fileSystem,
      log: this.#identity ?? this.#begin(randomBytes(16)),
      segments: this.#segments.filter((segment) => segment.end > SECTOR),
      nextNumber: this.#lastNumber + 1,
      previousEnd: this.#nextSequence,
      firstSequence: Math.max(this.#nextSequence, this.#highest) + SEQUENCE_GAP,
      damage: this.#damage,
    };
  }

  async replayAll(): Promise<void> {
    const numbers = await listSegments(this.#options);
    await this.#checkExtent(numbers);
    for (const number of numbers) {
      this.#lastNumber = Math.max(this.#lastNumber, number);
      await this.#replayOne(number, number === numbers.at(-1));
    }
    const losses = this.#damage.filter((damage) => damage.entries !== 0);
    if (losses.length > 0 && !this.#options.acceptDamage) throw refuseDamage(losses);
  }

  /** A missing end shows only here: what is left is a whole log. */
  async #checkExtent(numbers: readonly number[]): Promise<void> {
    const { directory } = this.#options;
    const extent = await readExtent(this.#fileSystem, directory);
    if (extent === null) return;
    if (extent === 'unreadable') {
      const file = join(directory, 'extent.json');
      this.#report(missing(file, 'it is unknown whether the first and last segment are there'));
      return;
    }
    // A number is never given twice, also if its segment is lost.
    this.#lastNumber = extent.last;
    for (const end of ['first', 'last'] as const) {
      const number = extent[end];
      if (numbers.includes(number)) continue;
      const path = segmentPath(directory, number);
      this.#report(missing(path, `the ${end} segment of the log is missing`));
    }
  }

  async #replayOne(number: number, isLast: boolean): Promise<void> {
    const path = segmentPath(this.#options.directory, number);
    const file = await this.#fileSystem.open(path, 'write');
    const bytes = await readWhole(file);
    const finding = decodeSegmentHeader(bytes.subarray(0, SECTOR));
    if (finding.found !== 'header') {
      await file.close();
      this.#passOver(path, finding, bytes, isLast);
      return;
    }
    const { header } = finding;
    if (this.#identity === null) this.#begin(header.log);
    if (this.#segments.length > 0 && header.previousEnd !== this.#nextSequence) {
      this.#reportGap(path, header);
    }
    const replayed = new SegmentReplay(path, bytes, header, isLast, this.#sink).run();
    if (isLast) await mendTail(file, bytes, replayed);
    this.#highest = Math.max(this.#highest, header.firstSequence, replayed.nextSequence);
    const isEmpty = replayed.end <= SECTOR;
    this.#nextSequence = isEmpty ? header.previousEnd : replayed.nextSequence;
    this.#segments.push(new Segment(path, header, file, replayed.end));
  }

  #report(damage: Damage): void {
    this.#damage.push(damage);
    this.#options.replay.damage?.(damage);
  }

  #begin(identity: Uint8Array): Uint8Array {
    this.#identity = identity;
    this.#options.replay.begin?.(identity);
    return identity;
  }

  #reportGap(file: string, header: SegmentHeader): void {
    this.#report({
      file,
      offset: 0,
      byteLength: 0,
      finding: 'a segment before this one is missing or lost its end',
      sequence: this.#nextSequence,
      entries: Math.max(header.previousEnd - this.#nextSequence, 0) || null,
    });
  }

  /** A segment without a header was never begun if it is the last one and blank; otherwise all of it is lost. */
  #passOver(file: string, finding: HeaderFinding, bytes: Buffer, isLast: boolean): void {
    if (isLast && finding.found === 'nothing' && bytes.every((byte) => byte === 0)) return;
    this.#report({
      file,
      offset: 0,
      byteLength: bytes.length,
      finding: 'the header of a segment is damaged',
      sequence: this.#nextSequence,
      entries: null,
    });
  }

  /** Files that were being prepared when a life ended. */
  async removeLeftovers(): Promise<void> {
    const { directory } = this.#options;
    for (const name of await this.#fileSystem.list(directory)) {
      if (name.endsWith('.new')) await this.#fileSystem.unlink(join(directory, name));
    }
  }

  /** Segments that hold nothing go once a newer one has their place: the highest sequence stays on disk. */
  async removeEmpty(log: SegmentLog): Promise<void> {
    const kept = new Set([...log.segments()].map(({ number }) => number));
    for (const number of await listSegments(this.#options)) {
      if (kept.has(number) || this.#isDamaged(number)) continue;
      await this.#fileSystem.unlink(segmentPath(this.#options.directory, number));
      await this.#fileSystem.syncDirectory(this.#options.directory);
    }
    for (const segment of this.#segments) if (segment.end <= SECTOR) await segment.close();
  }

  #isDamaged(number: number): boolean {
    const path = segmentPath(this.#options.directory, number);
    return this.#damage.some(({ file }) => file === path);
  }

  async abandon(): Promise<void> {
    for (const segment of this.#segments) await segment.close();
  }
}

function missing(file: string, finding: string): Damage {
  return { file, offset: 0, byteLength: 0, finding, sequence: 0, entries: null };
}

/**
 * Cuts what is torn. The last batch is written once more as it is: after a failed sync it may be in the page cache
 * alone, marked as clean, and a sync by itself would not bring it to the disk.
 */
async function mendTail(file: OpenFile, bytes: Buffer, replayed: ReplayedSegment): Promise<void> {
  const { end, lastBatchAt, tail } = replayed;
  if (tail === 'damaged') return;
  const from = lastBatchAt;
  await writeFully(file, bytes.subarray(from, Math.min(end, bytes.length)), from);
  await file.truncate(end);
  await file.sync();
}

async function readWhole(file: OpenFile): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(await file.size());
  let done = 0;
  while (done < bytes.length) {
    const count = await file.read(bytes.subarray(done), done);
    if (count === 0) return bytes.subarray(0, done);
    done += count;
  }
  return bytes;
}

async function listSegments({ directory, fileSystem = nodeFileSystem }: SegmentLogOptions) {
  const names = await asConfiguration(directory, fileSystem.list(directory));
  const numbers = names.map(segmentNumber).filter((number) => number !== null);
  return numbers.sort((a, b) => a - b);
}

async function inspect(options: SegmentLogOptions, number: number): Promise<void> {
  const { directory, kind, fileSystem = nodeFileSystem } = options;
  const path = segmentPath(directory, number);
  let file: OpenFile;
  try {
    file = await fileSystem.open(path, 'read');
  } catch (error) {
    // Another process, whose lock will stop us next, may have dropped it just now.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw asStoreError(directory, error);
  }
  try {
    const sector = Buffer.alloc(SECTOR);
    const count = await file.read(sector, 0);
    const finding = decodeSegmentHeader(sector.subarray(0, count));
    if (finding.found === 'version') {
      throw refuse(
        path,
        `is of format ${finding.version}; this version reads format ${FORMAT_VERSION}`,
      );
    }
    if (finding.found === 'foreign') throw refuse(path, 'is not a segment of a log');
    if (finding.found === 'header' && finding.header.kind !== kind) {
      throw refuse(path, `belongs to a log of kind "${finding.header.kind}", not "${kind}"`);
    }
  } catch (error) {
    throw asStoreError(directory, error);
  } finally {
    await file.close();
  }
}

function refuse(path: string, why: string): StoreError {
  const message = `${path} ${why}. Nothing was changed. Choose another folder or the version that wrote it.`;
  return new StoreError('ONCE_STORE_VERSION', message, { applied: 'no' });
}

function refuseDamage(losses: readonly Damage[]): StoreError {
  const [first] = losses as readonly [Damage];
  return new StoreError(
    'ONCE_RECORD_UNREADABLE',
    `${losses.length} place(s) of the log are damaged beyond repair, the first at byte ${first.offset} of ${first.file}: ` +
      `${first.finding}. Restore the folder from a backup, or open with acceptDamage to go on without what is lost.`,
    { applied: 'no' },
  );
}

const CONFIGURATION_CODES = new Set([
  'ENOTDIR',
  'EEXIST',
  'EACCES',
  'EPERM',
  'EROFS',
  'ENOENT',
  'ENAMETOOLONG',
  'ELOOP',
]);

/** What goes wrong before anything is opened is most often a wrong path. */
async function asConfiguration<T>(directory: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (error instanceof StoreError || code === undefined || !CONFIGURATION_CODES.has(code)) {
      throw asStoreError(directory, error);
    }
    throw new StoreError(
      'ONCE_INVALID_CONFIG',
      `Cannot use ${directory} as the folder of a store (${code}). It must be a folder that this process may write to.`,
      { cause: error, applied: 'no' },
    );
  }
}

function asStoreError(directory: string, error: unknown): unknown {
  if (error instanceof StoreError || (error as NodeJS.ErrnoException).code === undefined)
    return error;
  return new StoreError(
    'ONCE_STORE_UNAVAILABLE',
    `Cannot open the store in ${directory}: ${(error as Error).message}.`,
    { cause: error, applied: 'no' },
  );
}
