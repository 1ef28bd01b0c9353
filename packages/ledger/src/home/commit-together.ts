import { setImmediate as nextTurn } from 'node:timers/promises';
import { getSystemErrorName } from 'node:util';
import type { RootDatabase } from 'lmdb';

/**
 * Commits some writes as one; durable when it resolves. If the commit fails, so does the promise of every write, and
 * one more that tells why: none may be left without a handler, or the process ends.
 */
export async function commitTogether(
  environment: RootDatabase,
  writes: () => Iterable<Promise<boolean>>,
): Promise<void> {
  try {
    await environment.batch(() => {
      for (const write of writes()) write.catch(() => {});
    });
    await environment.flushed;
  } catch (error) {
    throw await reasonOf(error);
  }
}

async function reasonOf(error: unknown): Promise<unknown> {
  const { commitError } = error as { commitError?: Promise<never> };
  if (commitError === undefined) return error;
  const told = commitError.catch(withName);
  // It is settled in the same turn as the commit, if LMDB gives a reason at all.
  return Promise.race([told, nextTurn(error)]);
}

/** LMDB gives the number of a system error, such as that of a full disk, in place of its name. */
function withName(reason: unknown): unknown {
  const { code, message } = reason as { code?: unknown; message: string };
  if (typeof code !== 'number' || code <= 0) return reason;
  return Object.assign(new Error(message, { cause: reason }), { code: getSystemErrorName(-code) });
}
