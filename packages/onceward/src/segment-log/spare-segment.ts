import { MIB } from '../engine/units.ts';
import { type FileSystem, writeFully } from './file-system.ts';

const STEP = 1 * MIB;
const STEPS_PER_SYNC = 4;

/**
 * The next segment, filled with zeros ahead of time. Overwriting blocks that exist needs no commit of the file
 * system's own journal, and takes about half as long as growing a file. Only a matter of speed: where it fails or comes
 * late, the segment begins as an empty file.
 */
export class SpareSegment {
  readonly #fileSystem: FileSystem;
  readonly #path: string;
  #preparing: Promise<boolean> | null = null;
  #isReady = false;
  #isStopped = false;

  constructor(fileSystem: FileSystem, path: string) {
    this.#fileSystem = fileSystem;
    this.#path = path;
  }

  /** Begins to prepare one in the background, unless there is one. */
  prepare(byteLength: number): void {
    if (this.#preparing !== null || this.#isStopped) return;
    // Where there is no room for it, it must not take what is left from those who write.
    this.#preparing = this.#fill(byteLength).catch(async () => {
      await this.#fileSystem.unlink(this.#path).catch(() => undefined);
      return false;
    });
  }

  /** The path of the prepared file, which is the caller's from now on, or `null` if none is ready. */
  async take(): Promise<string | null> {
    if (this.#preparing === null) return null;
    if (!this.#isReady) return null;
    const isGood = await this.#preparing;
    this.#preparing = null;
    this.#isReady = false;
    return isGood ? this.#path : null;
  }

  async discard(): Promise<void> {
    this.#isStopped = true;
    if (this.#preparing === null) return;
    await this.#preparing;
    await this.#fileSystem.unlink(this.#path).catch(() => undefined);
  }

  async #fill(byteLength: number): Promise<boolean> {
    try {
      await this.#fileSystem.unlink(this.#path).catch(() => undefined);
      const file = await this.#fileSystem.open(this.#path, 'create');
      try {
        const zeros = Buffer.alloc(STEP);
        let step = 0;
        for (let at = 0; at < byteLength; at += STEP) {
          if (this.#isStopped) return false;
          await writeFully(file, zeros.subarray(0, Math.min(STEP, byteLength - at)), at);
          if (++step % STEPS_PER_SYNC === 0) await file.sync();
        }
        await file.sync();
        return true;
      } finally {
        await file.close();
      }
    } finally {
      this.#isReady = true;
    }
  }
}
