import { join } from 'node:path';
import { type FileSystem, writeFully } from './file-system.ts';

/**
 * The first and the last segment, in a file of their own: a gap in the middle shows by itself, the loss of an end does
 * not.
 *
 * It is written when a segment has been begun, before anything is written into it, and before a segment is removed.
 * So whatever the moment of a crash, both segments that it names exist; there may be one more at either end.
 */
export interface LogExtent {
  readonly first: number;
  readonly last: number;
}

const NAME = 'extent.json';
const MOST_BYTES = 4_096;

/** `null`: there is none, as in folders of earlier versions. */
export async function readExtent(
  fileSystem: FileSystem,
  directory: string,
): Promise<LogExtent | 'unreadable' | null> {
  if (!(await fileSystem.list(directory)).includes(NAME)) return null;
  const file = await fileSystem.open(join(directory, NAME), 'read');
  const bytes = Buffer.alloc(MOST_BYTES);
  let count = 0;
  try {
    count = await file.read(bytes, 0);
  } finally {
    await file.close();
  }
  return parseExtent(bytes.toString('utf8', 0, count));
}

/** Atomic: a reader finds the old one or the new one, whole. */
export async function writeExtent(
  fileSystem: FileSystem,
  directory: string,
  { first, last }: LogExtent,
): Promise<void> {
  const path = join(directory, NAME);
  const temporary = `${path}.new`;
  await fileSystem.unlink(temporary).catch(() => undefined);
  const file = await fileSystem.open(temporary, 'create');
  try {
    await writeFully(file, Buffer.from(`${JSON.stringify({ first, last })}\n`), 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await fileSystem.rename(temporary, path);
  await fileSystem.syncDirectory(directory);
}

function parseExtent(text: string): LogExtent | 'unreadable' {
  try {
    const { first, last } = JSON.parse(text) as Record<string, unknown>;
    if (Number.isSafeInteger(first) && Number.isSafeInteger(last)) {
      return { first: first as number, last: last as number };
    }
  } catch {
    // The result reports it.
  }
  return 'unreadable';
}
