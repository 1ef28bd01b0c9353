import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A real file system of its own, of a few MiB; only root may make one. */
export class SmallDisk {
  readonly path = mkdtempSync(join(tmpdir(), 'onceward-full-'));
  readonly isThere: boolean;

  constructor(size: string) {
    this.isThere = mount(this.path, size);
  }

  /** Takes all that is left, down to the last page. */
  fillUp(): void {
    let bytes = 8 * 1_048_576;
    for (let part = 0; bytes >= 512; part += 1) {
      try {
        writeFileSync(this.#filler(part), Buffer.alloc(bytes));
      } catch {
        unlinkSync(this.#filler(part));
        bytes = Math.floor(bytes / 2);
      }
    }
  }

  makeRoom(): void {
    for (let part = 0; part < 100; part += 1) rmSync(this.#filler(part), { force: true });
  }

  remove(): void {
    if (this.isThere) execFileSync('umount', [this.path]);
    rmSync(this.path, { recursive: true, force: true });
  }

  #filler(part: number): string {
    return join(this.path, `filler.${part}`);
  }
}

function mount(path: string, size: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'onceward-test', path], {
      stdio: 'ignore',
    });
    return true;
  } catch {
    return false;
  }
}
