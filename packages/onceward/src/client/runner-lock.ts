/**
 * Sees to it that one runner at a time sends for a device. Were two to run, each operation would still happen once, for
 * every attempt is marked in the storage; the lock keeps the order and saves the second request.
 */
export interface RunnerLock {
  /**
   * Waits for the lock, runs `work` while holding it, and gives it back when `work` ends. The lock of a tab
   * or process that died passes on by itself. `ifFree`: answers `false`, soon, if someone else has it and
   * lives.
   */
  hold(work: Work, options: HoldOptions): Promise<boolean>;
}

/** Ends when the signal is aborted: the outbox is closed, or another has the lock. */
export type Work = (signal: AbortSignal) => Promise<void>;

export interface HoldOptions {
  readonly signal: AbortSignal;
  readonly ifFree: boolean;
}

/** For storages that only one process can open. */
export const noLock: RunnerLock = {
  async hold(work, { signal }) {
    await work(signal);
    return true;
  },
};

/**
 * Web Locks: the browser passes the lock on when its holder closes, crashes or is discarded. Where there are none, as
 * on pages that came over plain HTTP, or they fail, every tab sends; `leaseLock` has one tab send there too.
 */
export function webLock(name: string): RunnerLock {
  return {
    async hold(work, { signal, ifFree }) {
      try {
        const options = ifFree ? { ifAvailable: true } : { signal };
        return await navigator.locks.request(name, options, async (lock) => {
          if (lock === null) return false;
          await work(signal);
          return true;
        });
      } catch {
        return !signal.aborted && noLock.hold(work, { signal, ifFree });
      }
    },
  };
}
