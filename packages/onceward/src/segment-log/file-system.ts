/**
 * What a segment log asks of a file system. The real one is `nodeFileSystem`; tests bring one that loses
 * power, fills up or fails to sync. Failures are plain `Error`s with a POSIX `code`.
 */
export interface FileSystem {
  /** Creates the folder and its parents where they are missing. */
  makeDirectory(directory: string): Promise<void>;
  /** The names in a folder, in no particular order. */
  list(directory: string): Promise<string[]>;
  open(path: string, mode: OpenMode): Promise<OpenFile>;
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
  /** Makes creations, renames and removals in the folder durable. */
  syncDirectory(directory: string): Promise<void>;
  /** Keeps every other process out of the folder until released, or rejects with `ONCE_STORE_LOCKED`. */
  lock(directory: string): Promise<DirectoryLock>;
}

/**
 * `read` and `write` open what exists, `create` makes a new file and fails where one exists. `write-through`
 * opens what exists, and its writes are durable when they resolve.
 */
export type OpenMode = 'read' | 'write' | 'create' | 'write-through';

export interface OpenFile {
  size(): Promise<number>;
  /** Fills `into` from `position` on; fewer bytes than asked for means that the file ends there. */
  read(into: Uint8Array, position: number): Promise<number>;
  /** May write less than it was given, and says how much. */
  write(bytes: Uint8Array, position: number): Promise<number>;
  truncate(length: number): Promise<void>;
  /** Makes what was written durable. After a failure the bytes must be taken for lost: never retry it. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

export interface DirectoryLock {
  release(): Promise<void>;
}

/** Writes all of `bytes`, also through a file system that takes them in parts. */
export async function writeFully(file: OpenFile, bytes: Uint8Array, position: number) {
  let done = await file.write(bytes, position);
  while (done < bytes.length) {
    const more = await file.write(bytes.subarray(done), position + done);
    if (more <= 0) throw new Error(`The file took ${done} of ${bytes.length} bytes and then none.`);
    done += more;
  }
}
