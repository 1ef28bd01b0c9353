import { isSuccess } from './operation.ts';
import type { Settled } from './outbox-events.ts';

/**
 * The JSON of the last answer of an operation that has ended; `null` where there is none, or it was not kept: by this
 * outbox, or by a server that says that the operation is done and no more.
 */
export function answerOf<T>(end: Settled | null): T | null {
  const isDone = end?.state === 'done';
  const answer = isDone ? end.answers.at(-1) : end?.answer;
  if (isDone && answer && !isSuccess(answer)) return null;
  try {
    return JSON.parse(answer?.body ?? 'null') as T;
  } catch {
    return null;
  }
}
