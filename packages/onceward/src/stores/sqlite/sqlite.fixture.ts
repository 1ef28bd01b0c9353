import { openDatabase, type SqliteDatabase, type SqliteDriver } from './sqlite-driver.ts';

/** What the suites open files with. `sqlite-drivers.integration.test.ts` runs them again with each of the others. */
export const DRIVER = (process.env.ONCEWARD_TEST_SQLITE ?? 'libsql') as SqliteDriver;

export function openWithDriver(path: string): SqliteDatabase {
  return openDatabase(path, DRIVER, [import.meta.url]);
}
