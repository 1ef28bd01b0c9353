import { type ClientWorld, DAY } from '../client-world.ts';
import { layout, type Operation, type Pointer } from './operation.ts';
import { forgetKeys, type OperationBook } from './operation-book.ts';

export interface Retention {
  readonly doneMs: number;
  readonly failedMs: number;
}

export const RETENTION_DEFAULTS: Retention = { doneMs: DAY, failedMs: 30 * DAY };

/** What may have happened never expires: the user has to discard it. */
export const NEVER_FORGOTTEN = ['unknown', 'stuck'];

/** Forgets successes, failures and pointers whose time is over, a page at a time. */
export async function forgetOld(
  book: OperationBook,
  retention: Retention,
  world: ClientWorld,
): Promise<void> {
  for (const place of [layout.done, layout.failed]) {
    for await (const { key, entry } of book.scan(place)) {
      const operation = entry as Operation;
      if (!isOld(operation, retention, world.now())) continue;
      const change = { key, expected: entry.version, next: null };
      await book.swap([change, ...forgetKeys(operation)]);
    }
  }
  await forgetPointers(book);
}

/** What cannot be read has no such time, and stays. */
function isOld(operation: Operation, retention: Retention, now: number): boolean {
  if (operation.state === 'done') return now - operation.doneAt >= retention.doneMs;
  return (
    operation.state === 'failed' &&
    !NEVER_FORGOTTEN.includes(operation.outcome) &&
    now - operation.failedAt >= retention.failedMs
  );
}

/** Pointers to operations that are no longer known. */
export async function forgetPointers(book: OperationBook): Promise<void> {
  for (const place of [layout.fingerprints, layout.tags]) {
    for await (const { key, entry } of book.scan(place)) {
      const { id, version } = entry as Pointer;
      if ((await book.find(id)) === null) await book.swap([{ key, expected: version, next: null }]);
    }
  }
}
