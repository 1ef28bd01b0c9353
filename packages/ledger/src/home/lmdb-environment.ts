import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { LmdbFile } from './lmdb-file.ts';
import { LmdbDamage } from './lmdb-page.ts';

/** What is wrong with the file of an environment, if anything is. Without this, LMDB must not map it. */
export function checkEnvironment(path: string): string | null {
  let file: LmdbFile | null = null;
  try {
    file = LmdbFile.open(join(path, 'data.mdb'));
    file?.check();
    return null;
  } catch (error) {
    if (error instanceof LmdbDamage) return error.message;
    throw error;
  } finally {
    file?.close();
  }
}

/** Kept under another name for inspection, until the next damaged one. */
export async function setAside(directory: string, name: string): Promise<void> {
  const aside = join(directory, `${name}.damaged`);
  await rm(aside, { recursive: true, force: true });
  await rename(join(directory, name), aside);
}
