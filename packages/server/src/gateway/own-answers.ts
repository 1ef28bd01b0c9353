import type { HttpAnswer } from 'onceward/http';

const own = new WeakSet<object>();

/** Marks an answer as the gateway's: it says nothing of the operation, so no profile keeps it. */
export function ownAnswer<T extends HttpAnswer>(answer: T): T {
  own.add(answer);
  return answer;
}

export function isOwnAnswer(answer: HttpAnswer): boolean {
  return own.has(answer);
}
