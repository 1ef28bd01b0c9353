import type { DurationMs, EpochMs } from './units.ts';

/**
 * Everything the engine may know of the outside: time, randomness, and the places where a process can die.
 * The real world is `nodeWorld()`; the simulator brings its own, so that one seed gives one history.
 */
export interface World {
  /** Wall clock, in whole milliseconds. May jump either way; decides liveness only. */
  now(): EpochMs;
  /** Whole milliseconds that rise steadily while the process lives; deadlines and budgets are measured on it. */
  elapsed(): DurationMs;
  /** Uniform in [0, 1). Used for jitter. */
  random(): number;
  /** At least 16 bytes from a cryptographic source, as text without separators. Names one attempt. */
  token(): string;
  /** Calls back once after `ms`. Only a timer that a caller waits for keeps a process alive. */
  startTimer(ms: DurationMs, callback: () => void, isAwaited?: boolean): Timer;
  /** A named place where the process may be killed. The real world does nothing here. */
  crashPoint?(name: CrashPoint): void;
}

export interface Timer {
  cancel(): void;
}

/** The windows in which a crash matters. Each is passed once in a run of `executeOnce`. */
export type CrashPoint =
  | 'before-claim'
  | 'after-claim'
  | 'before-effect'
  | 'after-effect'
  | 'before-settle'
  | 'after-settle'
  | 'after-step'
  | 'after-doubt'
  | 'before-release';

/**
 * The same world with whole milliseconds on both clocks. Stores keep times as integers, and a database refuses a
 * fraction: so a fraction ends here.
 */
export function wholeMilliseconds(world: World): World {
  return {
    now: () => Math.floor(world.now()),
    elapsed: () => Math.floor(world.elapsed()),
    random: () => world.random(),
    token: () => world.token(),
    startTimer: (ms, callback, isAwaited) => world.startTimer(ms, callback, isAwaited),
    ...(world.crashPoint === undefined
      ? {}
      : { crashPoint: (name: CrashPoint) => world.crashPoint?.(name) }),
  };
}

/** `isAwaited`: a caller waits for it, so the process must live as long. */
export function sleep(world: World, ms: DurationMs, isAwaited: boolean): Promise<void> {
  return new Promise((resolve) => {
    world.startTimer(ms, resolve, isAwaited);
  });
}
