import { basename, dirname, join } from 'node:path';
import {
  assertUnlocked,
  type FileSystem,
  nodeFileSystem,
  type OpenFile,
} from 'onceward/segment-log';

/**
 * The files as they are, of which nothing is ever written: what the log would change when it is opened (a torn tail
 * is cut, a new segment begun) is changed in memory alone. For inspection.
 */
export class ReadOnlyFileSystem implements FileSystem {
  readonly #made = new Map<string, MemoryFile>();
  readonly #removed = new Set<string>();

  async makeDirectory(): Promise<void> {}

  async list(directory: string): Promise<string[]> {
    const real = await nodeFileSystem.list(directory).catch((error) => {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw error;
    });
    const kept = real.filter((name) => !this.#removed.has(join(directory, name)));
    const made = [...this.#made.keys()].filter((path) => dirname(path) === directory);
    return [...new Set([...kept, ...made.map((path) => basename(path))])];
  }

  async open(path: string, mode: string): Promise<OpenFile> {
    const made = this.#made.get(path);
    if (made !== undefined) return made;
    if (mode !== 'create') return new RealFile(await nodeFileSystem.open(path, 'read'));
    const file = new MemoryFile();
    this.#made.set(path, file);
    return file;
  }

  async rename(from: string, to: string): Promise<void> {
    const file = this.#made.get(from);
    if (file === undefined) throw new Error(`${from} is opened read-only.`);
    this.#made.delete(from);
    this.#made.set(to, file);
  }

  async unlink(path: string): Promise<void> {
    if (!this.#made.delete(path)) this.#removed.add(path);
  }

  async syncDirectory(): Promise<void> {}

  /** Locks nothing; rejects if another process holds the lock. */
  async lock(directory: string) {
    await assertUnlocked(directory).catch((error) => {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    });
    return { release: async () => {} };
  }
}

class RealFile implements OpenFile {
  readonly #file: OpenFile;
  #end = Number.POSITIVE_INFINITY;

  constructor(file: OpenFile) {
    this.#file = file;
  }

  async size(): Promise<number> {
    return Math.min(this.#end, await this.#file.size());
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    const count = Math.max(0, Math.min(into.length, this.#end - position));
    return count === 0 ? 0 : this.#file.read(into.subarray(0, count), position);
  }

  /** The log writes to a segment of an earlier process only what is there already. */
  async write(bytes: Uint8Array): Promise<number> {
    return bytes.length;
  }

  async truncate(length: number): Promise<void> {
    this.#end = length;
  }

  async sync(): Promise<void> {}

  close(): Promise<void> {
    return this.#file.close();
  }
}

class MemoryFile implements OpenFile {
  #bytes = Buffer.alloc(0);

  async size(): Promise<number> {
    return this.#bytes.length;
  }

  async read(into: Uint8Array, position: number): Promise<number> {
    const part = this.#bytes.subarray(position, position + into.length);
    into.set(part);
    return part.length;
  }

  async write(bytes: Uint8Array, position: number): Promise<number> {
    const end = Math.max(this.#bytes.length, position + bytes.length);
    const grown = Buffer.alloc(end);
    this.#bytes.copy(grown);
    grown.set(bytes, position);
    this.#bytes = grown;
    return bytes.length;
  }

  async truncate(length: number): Promise<void> {
    const bytes = Buffer.alloc(length);
    this.#bytes.copy(bytes, 0, 0, Math.min(length, this.#bytes.length));
    this.#bytes = bytes;
  }

  async sync(): Promise<void> {}

  async close(): Promise<void> {}
}
