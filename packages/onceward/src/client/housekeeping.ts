import { type ClientWorld, DAY } from './client-world.ts';
import { type DoneOperation, type FailedOperation, layout, type Pointer } from './operation.ts';
import { forgetKeys, type OperationBook } from './operation-book.ts';
import type { Change } from './outbox-storage.ts';

export interface Retention {
  readonly doneMs: number;
  readonly failedMs: number;
}

export const RETENTION_DEFAULTS: Retention = { doneMs: 1 * DAY, failedMs: 30 * DAY };

/** What may have happened is never forgotten by time alone: someone has to look at it and discard it. */
const NEVER_FORGOTTEN = new Set<FailedOperation['outcome']>(['unknown', 'stuck']);

/** Forgets successes, failures and pointers whose time is over, a page at a time. */
export async function forgetOld(
  book: OperationBook,
  retention: Retention,
  world: ClientWorld,
): Promise<number> {
  const old = (at: number, keptMs: number) => world.now() - at >= keptMs;
  let forgotten = 0;
  for await (const done of book.all<DoneOperation>(layout.done)) {
    if (!old(done.doneAt, retention.doneMs)) continue;
    const place: Change = { key: layout.done + done.id, expected: done.version, next: null };
    if (await book.swap([place, ...forgetKeys(done.keys)])) forgotten += 1;
  }
  for await (const failed of book.all<FailedOperation>(layout.failed)) {
    if (NEVER_FORGOTTEN.has(failed.outcome) || !old(failed.failedAt, retention.failedMs)) continue;
    const place: Change = { key: layout.failed + failed.id, expected: failed.version, next: null };
    const keys = failed.steps.map((step) => step.key);
    if (await book.swap([place, ...forgetKeys(keys)])) forgotten += 1;
  }
  for (const prefix of [layout.fingerprints, layout.tags]) await forgetPointers(book, prefix);
  return forgotten;
}

/** Pointers to operations that are no longer known. */
async function forgetPointers(book: OperationBook, prefix: string): Promise<void> {
  const pageSize = 100;
  for (let after = prefix; ; ) {
    const page = await book.storage.range({ prefix, after, limit: pageSize });
    for (const { key, entry } of page) {
      const { id, version } = entry as Pointer;
      if ((await book.find(id)) === null) await book.swap([{ key, expected: version, next: null }]);
    }
    const last = page.at(-1);
    if (last === undefined || page.length < pageSize) return;
    after = last.key;
  }
}
