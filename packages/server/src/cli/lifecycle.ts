import { constants } from 'node:os';
import type { Logger } from 'pino';
import type { ExitName } from './exit-code.ts';

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

export interface Running {
  /** Takes no new requests, lets the running ones finish, closes the store. */
  drain(): Promise<void>;
  /** Ends what is still running, so that `drain` can end too. */
  cutOff(): void;
}

/** A process group and a supervisor may both deliver one signal; a person does not send two so soon. */
const SAME_SIGNAL_MS = 150;

/** How long what was cut off may take to end. Then the process ends without it. */
const CUT_OFF_MS = 2_000;

/** Waits for a signal, then for the drain. A second signal ends the process on the spot. */
export function runUntilSignal(running: Running, drainMs: number, log: Logger): Promise<ExitName> {
  return new Promise((resolve) => {
    let askedAt: number | null = null;
    const stop = (signal: (typeof SIGNALS)[number]) => {
      const now = performance.now();
      if (askedAt !== null && now - askedAt < SAME_SIGNAL_MS) return;
      if (askedAt !== null) process.exit(128 + constants.signals[signal]);
      askedAt = now;
      log.info({ signal }, 'draining');
      let cut = false;
      const timer = setTimeout(() => {
        cut = true;
        log.warn({ drainMs }, 'drain_timed_out');
        running.cutOff();
        setTimeout(() => {
          log.error('cut_off_timed_out');
          resolve('notDrained');
        }, CUT_OFF_MS).unref();
      }, drainMs);
      running
        .drain()
        .then(
          () => resolve(cut ? 'notDrained' : 'done'),
          (error: unknown) => {
            // What failed to end would keep the process alive; there is nothing left to wait for.
            log.error({ err: error }, 'drain_failed');
            resolve('failed');
          },
        )
        .finally(() => clearTimeout(timer));
    };
    for (const signal of SIGNALS) process.on(signal, stop);
  });
}
