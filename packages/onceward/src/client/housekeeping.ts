import { type ClientWorld, DAY } from './client-world.ts';
import { type DoneOperation, type FailedOperation, layout, type Pointer } from './operation.ts';
import { forgetKeys, type OperationBook } from './operation-book.ts';

export interface Retention {
  readonly doneMs: number;
  readonly failedMs: number;
}

export const RETENTION_DEFAULTS: Retention = { doneMs: 1 * DAY, failedMs: 30 * DAY };

/** What may have happened is never forgotten by time alone: someone has to look at it and discard it. */
const NEVER_FORGOTTEN = ['unknown', 'stuck'];

/** Forgets successes, failures and pointers whose time is over, a page at a time. */
export async function forgetOld(
  book: OperationBook,
  retention: Retention,
  world: ClientWorld,
): Promise<void> {
  const forget = async (prefix: string) => {
    for await (const operation of book.all<DoneOperation | FailedOperation>(prefix)) {
      const { id, version } = operation;
      // What cannot be read has no such time, and stays.
      if (!(world.now() >= forgottenFrom(operation, retention))) continue;
      await book.swap([
        { key: prefix + id, expected: version, next: null },
        ...forgetKeys(operation),
      ]);
    }
  };
  await forget(layout.done);
  await forget(layout.failed);
  await forgetPointers(book, layout.fingerprints);
  await forgetPointers(book, layout.tags);
}

function forgottenFrom(operation: DoneOperation | FailedOperation, retention: Retention): number {
  if (operation.state === 'done') return operation.doneAt + retention.doneMs;
  return NEVER_FORGOTTEN.includes(operation.outcome)
    ? Number.POSITIVE_INFINITY
    : operation.failedAt + retention.failedMs;
}

/** Pointers to operations that are no longer known. */
async function forgetPointers(book: OperationBook, prefix: string): Promise<void> {
  for await (const { key, entry } of book.scan(prefix)) {
    const { id, version } = entry as Pointer;
    if ((await book.find(id)) === null) await book.swap([{ key, expected: version, next: null }]);
  }
}
