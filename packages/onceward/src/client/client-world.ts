import { mintUuid } from '../keys/index.ts';
import { cryptoBytes, type RandomBytes, toHex } from '../keys/random-bytes.ts';

/** Everything the client may know of the outside. A simulation brings its own, so that one seed gives one history. */
export interface ClientWorld {
  /** Wall clock in milliseconds since the epoch. It may jump either way, and it is all that survives a restart. */
  now(): number;
  /** Rises steadily while the process lives; budgets are measured on it. */
  elapsed(): number;
  /** Uniform in [0, 1). Used for jitter. */
  random(): number;
  randomBytes: RandomBytes;
  /** Equal texts give equal digests, others do not: SHA-256 in hexadecimal, or the text itself. */
  digest(text: string): Promise<string>;
  /** `isIdle`: nothing waits for it, so it must not keep a process of Node alive. */
  startTimer(ms: number, callback: () => void, isIdle?: boolean): ClientTimer;
}

export interface ClientTimer {
  cancel(): void;
}

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export const realWorld: ClientWorld = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  random: () => Math.random(),
  randomBytes: cryptoBytes,
  async digest(text) {
    // Pages that were not loaded over TLS have no digests; what is compared is then simply longer.
    if (crypto.subtle === undefined) return text;
    const bytes = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
    return toHex(new Uint8Array(bytes));
  },
  startTimer(ms, callback, isIdle) {
    const timer = setTimeout(callback, ms);
    if (isIdle) (timer as { unref?(): void }).unref?.();
    return { cancel: () => clearTimeout(timer) };
  },
};

export function mintKey(world: ClientWorld): string {
  return mintUuid(world.randomBytes);
}

/** Runs `work` with a signal that is also aborted after `ms`. Rejects then, even if `work` does not listen. */
export async function withDeadline<T>(
  world: ClientWorld,
  ms: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = new AbortController();
  const timer = world.startTimer(ms, () =>
    deadline.abort(new DOMException('no answer in time', 'TimeoutError')),
  );
  const either = AbortSignal.any([signal, deadline.signal]);
  let end = () => {};
  try {
    either.throwIfAborted();
    const ended = new Promise<never>((_, reject) => {
      end = () => reject(either.reason);
      either.addEventListener('abort', end);
    });
    return await Promise.race([ended, work(either)]);
  } finally {
    timer.cancel();
    // A combined signal that someone listens to is never collected, nor is what the listener holds.
    either.removeEventListener('abort', end);
  }
}

/** Settles after `ms`, or as soon as the signal is aborted; the caller checks the signal. */
export function pause(
  world: ClientWorld,
  ms: number,
  signal?: AbortSignal | null,
  isIdle?: boolean,
): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      timer.cancel();
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = world.startTimer(ms, end, isIdle);
    signal?.addEventListener('abort', end);
  });
}
