import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';

const DIGITS = 16;

/** How many effects really ran, also before the last restart: one number in one small file. */
export class EffectCount {
  readonly #file: FileHandle;
  #count: number;
  #written: Promise<unknown> = Promise.resolve();

  private constructor(file: FileHandle, count: number) {
    this.#file = file;
    this.#count = count;
  }

  static async open(folder: string): Promise<EffectCount> {
    const path = join(folder, 'demo-effects');
    const file = await open(path, 'r+').catch(() => open(path, 'w+'));
    const count = Number.parseInt(await file.readFile('utf8'), 10);
    return new EffectCount(file, Number.isSafeInteger(count) ? count : 0);
  }

  get value(): number {
    return this.#count;
  }

  async add(): Promise<void> {
    this.#count += 1;
    this.#written = this.#written.then(() =>
      this.#file.write(String(this.#count).padStart(DIGITS, '0'), 0),
    );
    await this.#written;
  }

  async close(): Promise<void> {
    await this.#written;
    await this.#file.close();
  }
}
