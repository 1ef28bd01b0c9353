import { type FileHandle, mkdir, open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { type AuditLine, StoreError } from 'onceward';

/** What people did to records, as the engine reports it, and to credentials. */
export type TrailLine =
  | AuditLine
  | {
      readonly at: number;
      readonly action: 'create_credential' | 'revoke_credential';
      readonly api_key: string;
      readonly role: string;
      readonly actor?: string;
      readonly by: string;
    };

export interface LatestLines {
  readonly lines: TrailLine[];
  readonly damaged: number;
}

interface Waiting {
  readonly text: string;
  resolve(): void;
  reject(error: unknown): void;
}

const FILE = 'audit.jsonl';
const CHUNK = 65_536;
/** Scope, key, reason and a name, each at its limit and escaped, stay below this. */
const LONGEST_LINE = 1_048_576;

/** The file is set aside under a dated name when it has grown to this, and a new one begun. Nothing is deleted. */
const ROTATE_AT = 64 * 1_048_576;

/**
 * One line of JSON for each action, on disk before the action is taken. Lines that arrive while others are being
 * written share the next write and its sync.
 */
export class AuditTrail {
  readonly #folder: string;
  readonly #rotateAt: number;
  #file: FileHandle;
  #size: number;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | null = null;

  private constructor(folder: string, rotateAt: number, file: FileHandle, size: number) {
    this.#folder = folder;
    this.#rotateAt = rotateAt;
    this.#file = file;
    this.#size = size;
  }

  static async open(folder: string, rotateAt: number = ROTATE_AT): Promise<AuditTrail> {
    await mkdir(folder, { recursive: true });
    const file = await openFile(folder);
    return new AuditTrail(folder, rotateAt, file, await mendTail(file));
  }

  /** Resolves when the line is on disk; rejects when it may not be. */
  append(line: TrailLine): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ text: `${JSON.stringify(line)}\n`, resolve, reject });
      this.#writing ??= this.#writeAll();
    });
  }

  /** The newest lines first. Those that cannot be read are counted, and left where they are. */
  async latest(limit: number): Promise<LatestLines> {
    const lines: TrailLine[] = [];
    let damaged = 0;
    const take = (bytes: Buffer) => {
      if (bytes.length === 0 || lines.length >= limit) return;
      const line = readLine(bytes);
      if (line === null) damaged += 1;
      else lines.push(line);
    };
    let end = this.#size;
    let rest = Buffer.alloc(0);
    while (end > 0 && lines.length < limit) {
      const length = Math.min(CHUNK, end);
      const chunk = Buffer.alloc(length);
      await this.#file.read(chunk, 0, length, end - length);
      end -= length;
      let text = Buffer.concat([chunk, rest]);
      for (let cut = text.lastIndexOf(10); cut !== -1; cut = text.lastIndexOf(10)) {
        take(text.subarray(cut + 1));
        text = text.subarray(0, cut);
      }
      // What stands before the first line break may have begun in the chunk before. No line of ours is so long that
      // it need be gathered further.
      rest = text.length > LONGEST_LINE ? text.subarray(0, LONGEST_LINE) : text;
    }
    take(rest);
    return { lines, damaged };
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#file.close();
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        if (this.#size >= this.#rotateAt) await this.#rotate();
        const bytes = Buffer.from(batch.map(({ text }) => text).join(''));
        await this.#file.appendFile(bytes);
        await this.#file.datasync();
        this.#size += bytes.length;
        for (const { resolve } of batch) resolve();
      } catch (cause) {
        // A part of a line may be there now; the next one must not be glued to it.
        await this.#file.truncate(this.#size).catch(() => {});
        const error = new StoreError(
          'ONCE_STORE_UNAVAILABLE',
          `The audit trail ${join(this.#folder, FILE)} cannot be written, so nothing was changed.`,
          { cause, applied: 'no' },
        );
        for (const { reject } of batch) reject(error);
      }
    }
    this.#writing = null;
  }

  async #rotate(): Promise<void> {
    const stamp = new Date().toISOString().replaceAll(':', '-');
    await rename(join(this.#folder, FILE), join(this.#folder, `audit-${stamp}.jsonl`));
    const file = await openFile(this.#folder);
    await this.#file.close();
    this.#file = file;
    this.#size = 0;
  }
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

/** `null`: these bytes are not what was written. */
function readLine(bytes: Buffer): TrailLine | null {
  try {
    const line = JSON.parse(UTF8.decode(bytes)) as TrailLine | null;
    return typeof line?.at === 'number' && typeof line.action === 'string' ? line : null;
  } catch {
    return null;
  }
}

async function openFile(folder: string): Promise<FileHandle> {
  const file = await open(join(folder, FILE), 'a+', 0o600);
  const parent = await open(folder, 'r');
  try {
    await parent.sync();
  } finally {
    await parent.close();
  }
  return file;
}

/** A line that a crash cut short was never acknowledged, and its action never taken: it goes. */
async function mendTail(file: FileHandle): Promise<number> {
  const { size } = await file.stat();
  const tail = Buffer.alloc(Math.min(size, CHUNK));
  await file.read(tail, 0, tail.length, size - tail.length);
  const whole = size - tail.length + tail.lastIndexOf(10) + 1;
  if (whole < size) await file.truncate(whole);
  return whole;
}
