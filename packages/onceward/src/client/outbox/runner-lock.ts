import { type ClientWorld, pause, realWorld, SECOND } from '../client-world.ts';

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

/** Waiting tabs ping the holder this often. */
const ASK_EVERY = 30 * SECOND;
/** A holder that misses so many pings is stalled. Pings, not time: the waiting tab may have been suspended. */
const MOST_UNANSWERED = 6;

/**
 * Web Locks: the browser passes the lock on when its holder closes, crashes or is discarded. From one that is stalled
 * it is taken. Where there are none, as on pages that came over plain HTTP, or they fail, every tab sends; `leaseLock`
 * has one tab send there too.
 */
export function webLock(name: string, world: ClientWorld = realWorld): RunnerLock {
  return {
    async hold(work, options) {
      const { signal, ifFree } = options;
      for (let isStalled = false; ; ) {
        const over = new AbortController();
        const either = AbortSignal.any([signal, over.signal]);
        let working: Promise<void> | undefined;
        const how = isStalled
          ? { steal: true }
          : ifFree
            ? { ifAvailable: true }
            : { signal: either };
        isStalled = false;
        try {
          const holding = navigator.locks.request(name, how, async (lock) => {
            if (lock) await (working = work(either));
            return !!lock;
          });
          void watch(name, world, either, () => working).then((found) => {
            isStalled = found;
            over.abort();
          });
          return await holding.finally(() => over.abort());
        } catch {
          // The lock was taken away, and the work ends; or it has thrown itself, which is thrown here.
          await working;
          if (signal.aborted || (working && ifFree)) return !!working;
          if (!working && !isStalled) return noLock.hold(work, options);
        }
      }
    },
  };
}

/** Answers for the holder; `true`: someone else holds the lock and answers no more. Ends with the signal. */
async function watch(
  name: string,
  world: ClientWorld,
  signal: AbortSignal,
  isHolder: () => unknown,
): Promise<boolean> {
  const channel = new BroadcastChannel(`${name}:holder`);
  let unanswered = 0;
  channel.onmessage = ({ data: isQuestion }: MessageEvent<boolean>) => {
    if (!isQuestion) unanswered = 0;
    else if (isHolder()) channel.postMessage(false);
  };
  while (!signal.aborted && unanswered < MOST_UNANSWERED) {
    channel.postMessage(true);
    await pause(world, ASK_EVERY, signal, true);
    unanswered = isHolder() ? 0 : unanswered + 1;
  }
  channel.close();
  return !signal.aborted;
}
