import type { DurationMs, EpochMs } from '../engine/units.ts';
import type { CrashPoint, World } from '../engine/world.ts';

/** A world whose clock is moved by hand. For tests of anything that waits, renews, lapses or expires. */
export interface ManualWorld extends World {
  /** Moves both clocks, running timers in the order they are due and letting promises settle in between. */
  advance(ms: DurationMs): Promise<void>;
  /** Moves the wall clock alone, as an administrator or a time server would. */
  jumpClock(ms: DurationMs): void;
  /** Called at every crash point. */
  atCrashPoint(callback: (point: CrashPoint) => void): void;
}

interface Waiting {
  readonly at: DurationMs;
  readonly callback: () => void;
}

export function manualWorld(start: EpochMs = Date.UTC(2030, 0, 1)): ManualWorld {
  const timers = new Set<Waiting>();
  let elapsed = 0;
  let wallOffset = start;
  let tokens = 0;
  let onCrashPoint: (point: CrashPoint) => void = () => {};

  return {
    now: () => wallOffset + elapsed,
    elapsed: () => elapsed,
    random: () => 0.5,
    token: () => `token-${(tokens += 1)}`,
    startTimer(ms, callback) {
      const timer = { at: elapsed + ms, callback };
      timers.add(timer);
      return { cancel: () => timers.delete(timer) };
    },
    crashPoint: (point) => onCrashPoint(point),
    atCrashPoint(callback) {
      onCrashPoint = callback;
    },
    jumpClock(ms) {
      wallOffset += ms;
    },
    async advance(ms) {
      const until = elapsed + ms;
      await settlePromises();
      for (let next = earliest(timers); next && next.at <= until; next = earliest(timers)) {
        elapsed = Math.max(elapsed, next.at);
        timers.delete(next);
        next.callback();
        await settlePromises();
      }
      elapsed = until;
    },
  };
}

function earliest(timers: ReadonlySet<Waiting>): Waiting | undefined {
  let first: Waiting | undefined;
  for (const timer of timers) if (first === undefined || timer.at < first.at) first = timer;
  return first;
}

/** One turn of the event loop runs every promise callback that is ready, however long the chain. */
function settlePromises(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
