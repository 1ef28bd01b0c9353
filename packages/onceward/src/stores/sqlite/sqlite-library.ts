import { StoreError } from '../../engine/errors.ts';
import type { SqliteDatabase } from './sqlite-driver.ts';

/** Identifies a copy of SQLite: the source it was built from, and how it was built. */
export function libraryOf(database: SqliteDatabase): string {
  const source = database.prepare('select sqlite_source_id() as id').get() as { id: string };
  const options = database.prepare('pragma compile_options').all() as Record<string, string>[];
  const built = options.map((option) => Object.values(option)[0]).sort();
  return `${source.id} ${built.join(' ')}`;
}

/**
 * Two copies of SQLite in one process do not exclude each other, because POSIX locks belong to the process: whichever
 * closes the file first drops the locks of the other, and both write. That destroys the file.
 */
export function requireSameLibrary(database: SqliteDatabase, library: string): void {
  if (libraryOf(database) === library) return;
  throw new StoreError(
    'ONCE_INVALID_CONFIG',
    'this connection comes from another SQLite driver than the one the store has opened the file with, and two ' +
      'copies of SQLite in one process can destroy a file; open the store with the same one (the option `driver`)',
    { applied: 'no' },
  );
}
