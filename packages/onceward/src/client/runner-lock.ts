/**
 * Sees to it that one runner at a time sends for a device. Were two to run, the server would still see one
 * key per operation; the lock is there to keep the order and to save the second request.
 */
export interface RunnerLock {
  /**
   * Waits for the lock, runs `work` while holding it, and gives it back when `work` ends. The lock of a tab
   * or process that died passes on by itself. `ifFree`: answers `false` at once if someone else has it.
   */
  hold(work: () => Promise<void>, options: HoldOptions): Promise<boolean>;
}

export interface HoldOptions {
  readonly signal: AbortSignal;
  readonly ifFree: boolean;
}

/** For storages that only one process can open. */
export const noLock: RunnerLock = {
  async hold(work) {
    await work();
    return true;
  },
};

/** Web Locks: the browser passes the lock on when its holder closes, crashes or is discarded. */
export function webLock(name: string): RunnerLock {
  return {
    async hold(work, { signal, ifFree }) {
      try {
        return await navigator.locks.request(
          name,
          ifFree ? { ifAvailable: true } : { signal },
          async (lock) => {
            if (lock === null) return false;
            await work();
            return true;
          },
        );
      } catch (error) {
        if (signal.aborted) return false;
        throw error;
      }
    },
  };
}
