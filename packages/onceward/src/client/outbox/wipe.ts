import { forgetPointers, NEVER_FORGOTTEN } from './housekeeping.ts';
import {
  type FailedOperation,
  layout,
  type Operation,
  ownerOf,
  type WaitingOperation,
} from './operation.ts';
import { forgetKeys, type OperationBook } from './operation-book.ts';
import type { Outbox } from './outbox.ts';
import { isAtStart } from './transition.ts';

/** What a `wipe` removed, and what of it may have happened without anyone knowing. */
export interface Wiped {
  readonly waiting: number;
  readonly failed: number;
  readonly done: number;
  readonly unknown: readonly (WaitingOperation | FailedOperation)[];
}

/**
 * Removes everything of an owner, by default of the one who is signed in, and reports what that was. What is in flight
 * is not called back. What may have happened is in `unknown`, with its keys: the last chance to take note of it.
 */
export async function wipe(
  outbox: Outbox,
  owner: string | null = outbox.failed.core.owner(),
): Promise<Wiped> {
  const { book } = outbox.failed.core;
  const unknown = new Map<string, WaitingOperation | FailedOperation>();
  const isOwn = (operation: Operation) => {
    if (ownerOf(operation) !== owner) return false;
    if (mayHaveHappened(operation)) unknown.set(operation.id, operation);
    return true;
  };
  // In the order in which an operation moves, so that none slips through.
  const waiting = await forget(book, layout.waiting, isOwn);
  const failed = await forget(book, layout.failed, isOwn);
  const done = await forget(book, layout.done, isOwn);
  for (const { id } of done) unknown.delete(id);
  await forgetPointers(book);
  return {
    waiting: waiting.length,
    failed: failed.length,
    done: done.length,
    unknown: [...unknown.values()],
  };
}

/** Outcome unknown: it was sent without an answer, or it is a group that has begun. */
function mayHaveHappened(operation: Operation): operation is WaitingOperation | FailedOperation {
  if (operation.state === 'done') return false;
  return operation.state === 'failed'
    ? NEVER_FORGOTTEN.includes(operation.outcome)
    : operation.unsettledSince !== null || !isAtStart(operation);
}

/** Answers what it removed. */
async function forget(
  book: OperationBook,
  place: string,
  isOver: (operation: Operation) => boolean,
): Promise<Operation[]> {
  const removed: Operation[] = [];
  for await (const { key, entry } of book.scan(place)) {
    // Read again if it has changed meanwhile.
    for (let found = entry as Operation | undefined; found && isOver(found); ) {
      const change = { key, expected: found.version, next: null };
      if (await book.swap([change, ...forgetKeys(found)])) {
        removed.push(found);
        break;
      }
      [found] = (await book.storage.read([key])) as (Operation | undefined)[];
    }
  }
  return removed;
}
