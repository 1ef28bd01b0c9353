import type { Settled } from './outbox-events.ts';

/** The JSON of the last answer of an operation that has ended; `null` where there is none, or it was not kept. */
export function answerOf<T>(end: Settled | null): T | null {
  const answer = end?.state === 'done' ? end.answers.at(-1) : end?.answer;
  try {
    return JSON.parse(answer?.body ?? 'null') as T;
  } catch {
    return null;
  }
}
