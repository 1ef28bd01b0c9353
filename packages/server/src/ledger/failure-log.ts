import type { StoreError } from 'onceward';
import type { Logger } from 'pino';

/** A ledger that has stopped refuses every request for the same reason. */
const QUIET_MS = 10_000;

/** Logs why the ledger fails: at most one line for each code in ten seconds, with how many were left out before it. */
export class FailureLog {
  readonly #log: Logger;
  readonly #now: () => number;
  readonly #last = new Map<string, { readonly at: number; left: number }>();

  constructor(log: Logger, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  write(error: StoreError, where: Readonly<Record<string, unknown>>): void {
    const at = this.#now();
    const last = this.#last.get(error.code);
    if (last !== undefined && at < last.at + QUIET_MS) {
      last.left += 1;
      return;
    }
    this.#last.set(error.code, { at, left: 0 });
    this.#log.error({ err: error, ...where, leftOut: last?.left ?? 0 }, 'ledger_failed');
  }
}
