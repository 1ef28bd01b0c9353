import { OncewardError } from 'onceward';
import { Problem } from './problem.ts';

/** Why the store cannot serve, for the readiness check. Files and hosts are named in the log alone. */
export function storeProblem(error: unknown): Problem {
  return new Problem('store-unavailable', reasonOf(error), { retryAfterSeconds: 1 });
}

function reasonOf(error: unknown): string {
  const hasStopped = error instanceof OncewardError && error.code === 'ONCE_STORE_FAILED';
  if (hasStopped) {
    return 'the store has stopped after a write that failed; see the log, fix the cause and restart the server';
  }
  if (isOutOfRoom(error)) {
    return 'the disk of the store is full, so nothing can be written; make room, and it goes on by itself';
  }
  return 'the store did not answer, or did not take a write; see the log';
}

/** Checks the causes too: a store wraps errors of the system. */
export function isOutOfRoom(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth += 1) {
    const { code } = at as NodeJS.ErrnoException;
    if (code === 'ENOSPC' || code === 'EDQUOT') return true;
  }
  return false;
}
