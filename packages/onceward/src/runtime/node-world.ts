import { randomBytes } from 'node:crypto';
import type { World } from '../engine/world.ts';

/** The real clock, the real dice, and no crashes but real ones. */
export function nodeWorld(): World {
  return {
    now: Date.now,
    elapsed: () => Math.floor(performance.now()),
    random: Math.random,
    token: () => randomBytes(16).toString('base64url'),
    startTimer(ms, callback, isAwaited = false) {
      const timer = setTimeout(callback, ms);
      if (!isAwaited) timer.unref();
      return { cancel: () => clearTimeout(timer) };
    },
  };
}
