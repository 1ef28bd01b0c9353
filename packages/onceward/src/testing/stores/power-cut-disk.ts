import { basename, dirname } from 'node:path';
import { StoreError } from '../../engine/errors.ts';
import type {
  DirectoryLock,
  FileSystem,
  OpenFile,
  OpenMode,
} from '../../segment-log/file-system.ts';

const SECTOR = 512;

export interface DiskFaults {
  /** The power fails in the midst of this operation (the first is 1): whatever is not synced may be lost. */
  readonly cutAt?: number;
  /** Called before each operation; what it throws is what the operation fails with. */
  readonly before?: (operation: DiskOperation) => void;
  /**
   * Called when a write has reached the cache and not yet the disk. What it throws is a failed sync: the cache goes
   * on to show the bytes, and no later sync writes them, as the kernel holds them for clean.
   */
  readonly beforeSync?: (operation: DiskOperation) => void;
  /** The most that one write takes. */
  readonly mostPerWrite?: number;
  /** The same seed loses the same sectors. */
  readonly seed?: number;
}

export interface DiskOperation {
  readonly kind:
    | 'open'
    | 'read'
    | 'write'
    | 'truncate'
    | 'sync'
    | 'rename'
    | 'unlink'
    | 'syncDirectory';
  readonly path: string;
  /** Writes that are durable when they resolve. */
  readonly isWriteThrough: boolean;
}

/** What a file holds for those who read it now, and what of it is on the platter. */
interface Inode {
  cached: Buffer;
  durable: Buffer;
  /** Sectors that the cache wrongly holds for written. */
  readonly lost: Set<number>;
}

type NameChange = { readonly remove: string[]; readonly add: [string, Inode][] };

/**
 * A disk in memory that can lose power. Of what was written but not synced each sector survives or not by chance,
 * and of names that were not synced each change; what was synced survives. `restart` gives the disk as it is after
 * the cut.
 */
export class PowerCutDisk implements FileSystem {
  readonly #cached: Map<string, Inode>;
  readonly #durable: Map<string, Inode>;
  readonly #changes: NameChange[] = [];
  readonly #locked = new Set<string>();
  readonly #faults: DiskFaults;
  #random: number;
  #isCut = false;
  operations = 0;

  constructor(faults: DiskFaults = {}, names: ReadonlyMap<string, Buffer> = new Map()) {
    this.#faults = faults;
    this.#random = (faults.seed ?? 1) >>> 0;
    const inodes = [...names].map(([name, bytes]) => [name, inodeOf(bytes)] as const);
    this.#cached = new Map(inodes);
    this.#durable = new Map(inodes);
  }

  get isCut(): boolean {
    return this.#isCut;
  }

  /** The files as they read now, synced or not. */
  files(): Map<string, Buffer> {
    return new Map([...this.#cached].map(([name, inode]) => [name, Buffer.from(inode.cached)]));
  }

  /** The disk after a power cut at this moment. */
  restart(faults: DiskFaults = {}): PowerCutDisk {
    const names = new Map(this.#durable);
    for (const change of this.#changes) {
      if (this.#chance(0.5)) applyTo(names, change);
    }
    const survivors = [...names].map(([name, inode]) => [name, this.#survivor(inode)] as const);
    return new PowerCutDisk(faults, new Map(survivors));
  }

  async makeDirectory(): Promise<void> {}

  async list(directory: string): Promise<string[]> {
    return [...this.#cached.keys()]
      .filter((path) => dirname(path) === directory)
      .map((p) => basename(p));
  }

  async open(path: string, mode: OpenMode): Promise<OpenFile> {
    await this.#operate('open', path);
    let inode = this.#cached.get(path);
    if (mode === 'create') {
      if (inode) throw failure('EEXIST', path);
      inode = inodeOf(Buffer.alloc(0));
      this.#rename({ remove: [], add: [[path, inode]] });
    }
    if (!inode) throw failure('ENOENT', path);
    return this.#file(path, inode, mode === 'write-through');
  }

  async rename(from: string, to: string): Promise<void> {
    const inode = this.#cached.get(from);
    if (!inode) throw failure('ENOENT', from);
    // Applied before the operation counts: the power may fail with the change in flight.
    this.#rename({ remove: [from], add: [[to, inode]] });
    await this.#operate('rename', from);
  }

  async unlink(path: string): Promise<void> {
    if (!this.#cached.has(path)) throw failure('ENOENT', path);
    this.#rename({ remove: [path], add: [] });
    await this.#operate('unlink', path);
  }

  async syncDirectory(directory: string): Promise<void> {
    await this.#operate('syncDirectory', directory);
    for (const change of this.#changes.splice(0)) applyTo(this.#durable, change);
  }

  async lock(directory: string): Promise<DirectoryLock> {
    if (this.#locked.has(directory)) {
      throw new StoreError('ONCE_STORE_LOCKED', `${directory} is locked.`, { applied: 'no' });
    }
    this.#locked.add(directory);
    return {
      release: async () => {
        this.#locked.delete(directory);
      },
    };
  }

  #file(path: string, inode: Inode, isWriteThrough: boolean): OpenFile {
    return {
      size: async () => inode.cached.length,
      read: async (into, position) => {
        await this.#operate('read', path);
        const part = inode.cached.subarray(position, position + into.length);
        into.set(part);
        return part.length;
      },
      write: async (bytes, position) => {
        const taken = bytes.subarray(0, this.#faults.mostPerWrite ?? bytes.length);
        // What the caller does to its buffer from here on is no longer ours.
        const copy = Buffer.from(taken);
        this.#assertPowered();
        this.#faults.before?.({ kind: 'write', path, isWriteThrough });
        overwrite(inode, copy, position);
        try {
          this.#faults.beforeSync?.({ kind: 'write', path, isWriteThrough });
        } catch (error) {
          for (const sector of sectorsOf(position, copy.length)) inode.lost.add(sector);
          throw error;
        }
        await this.#operate('write', path, isWriteThrough, true);
        if (isWriteThrough) flush(inode);
        return copy.length;
      },
      truncate: async (length) => {
        await this.#operate('truncate', path);
        inode.cached = resized(inode.cached, length);
      },
      sync: async () => {
        await this.#operate('sync', path);
        flush(inode);
      },
      close: async () => undefined,
    };
  }

  #rename(change: NameChange): void {
    this.#assertPowered();
    this.#changes.push(change);
    applyTo(this.#cached, change);
  }

  async #operate(
    kind: DiskOperation['kind'],
    path: string,
    isWriteThrough = false,
    isAnnounced = false,
  ): Promise<void> {
    this.#assertPowered();
    if (!isAnnounced) this.#faults.before?.({ kind, path, isWriteThrough });
    this.operations++;
    if (this.operations === this.#faults.cutAt) this.#isCut = true;
    await new Promise((resolve) => setImmediate(resolve));
    this.#assertPowered();
  }

  #assertPowered(): void {
    if (this.#isCut) throw failure('EIO', 'the power is off');
  }

  #survivor({ cached, durable, lost }: Inode): Buffer {
    const length = this.#chance(0.5) ? cached.length : durable.length;
    const bytes = resized(durable, length);
    for (let at = 0; at < Math.min(length, cached.length); at += SECTOR) {
      if (!lost.has(at / SECTOR) && this.#chance(0.5))
        cached.copy(bytes, at, at, Math.min(at + SECTOR, length));
    }
    return bytes;
  }

  #chance(probability: number): boolean {
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#random / 2 ** 32 < probability;
  }
}

function applyTo(names: Map<string, Inode>, { remove, add }: NameChange): void {
  for (const name of remove) names.delete(name);
  for (const [name, inode] of add) names.set(name, inode);
}

function overwrite(inode: Inode, bytes: Uint8Array, position: number): void {
  const end = position + bytes.length;
  const next = resized(inode.cached, Math.max(end, inode.cached.length));
  next.set(bytes, position);
  inode.cached = next;
  for (const sector of sectorsOf(position, bytes.length)) inode.lost.delete(sector);
}

function inodeOf(bytes: Buffer): Inode {
  return { cached: Buffer.from(bytes), durable: Buffer.from(bytes), lost: new Set() };
}

function* sectorsOf(position: number, length: number): Iterable<number> {
  const last = Math.ceil((position + length) / SECTOR);
  for (let sector = Math.floor(position / SECTOR); sector < last; sector++) yield sector;
}

function flush(inode: Inode): void {
  const next = Buffer.from(inode.cached);
  const before = resized(inode.durable, next.length);
  for (const sector of inode.lost) {
    before.copy(next, sector * SECTOR, sector * SECTOR, (sector + 1) * SECTOR);
  }
  inode.durable = next;
}

function resized(bytes: Buffer, length: number): Buffer {
  const next = Buffer.alloc(length);
  bytes.copy(next, 0, 0, Math.min(length, bytes.length));
  return next;
}

function failure(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}
