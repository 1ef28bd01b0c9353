import type { DurationMs } from '../../engine/units.ts';

/** So long turns may follow each other without a pause, and so long a pause is. */
const WITHOUT_PAUSE_MS = 25;
const PAUSE_MS = 5;

/** Real time, or that of a simulation. */
export interface Pace {
  now(): DurationMs;
  sleep(ms: DurationMs): Promise<unknown>;
}

/**
 * Runs what it is given one after the other. SQLite has no queue: who waits for the file tries now and then, and would
 * never find it free between two transactions in a row. So there is a pause between many.
 */
export function takeTurns(pace: Pace): <T>(run: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  let pausedAt = 0;
  const pause = async () => {
    const isDue = pace.now() - pausedAt > WITHOUT_PAUSE_MS;
    if (waiting > 0 && isDue) await pace.sleep(PAUSE_MS);
    if (waiting === 0 || isDue) pausedAt = pace.now();
  };
  return (run) => {
    waiting += 1;
    const turn = last.then(run).finally(() => {
      waiting -= 1;
    });
    last = turn.catch(() => {}).then(pause);
    return turn;
  };
}
