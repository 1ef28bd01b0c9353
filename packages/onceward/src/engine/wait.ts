import type { Decision } from './decide.ts';
import type { Run, RunEnd } from './near-tier.ts';
import type { Operation } from './operation.ts';
import type { EngineParts } from './parts.ts';
import type { DurationMs } from './units.ts';

/** Waits behind a run of this process. */
export function waitForRun(
  parts: EngineParts,
  run: Run,
  atMostMs: DurationMs,
): Promise<RunEnd | 'timed_out'> {
  return new Promise((resolve) => {
    const timer = parts.world.startTimer(atMostMs, () => resolve('timed_out'));
    run.whenEnded((end) => {
      timer.cancel();
      resolve(end);
    });
  });
}

const FIRST_POLL_MS = 20;
const LONGEST_POLL_MS = 500;

/**
 * Waits until a record of another process may have changed: woken by the store where it can, else polling. The
 * pauses grow with the age of the claim and are jittered, so that many waiters do not ask in step.
 */
export async function waitForChange(
  parts: EngineParts,
  operation: Operation,
  decision: Extract<Decision, { kind: 'wait' }>,
  atMostMs: DurationMs,
): Promise<void> {
  const { store, world } = parts;
  const age = decision.leaseUntil - operation.policy.leaseMs;
  const pause = Math.min(LONGEST_POLL_MS, Math.max(FIRST_POLL_MS, (world.now() - age) / 4));
  const polling = store.changed === undefined ? pause : LONGEST_POLL_MS;
  const untilLapse = Math.max(1, decision.leaseUntil - world.now());
  const ms = Math.max(1, Math.min(polling * (0.5 + world.random()), untilLapse, atMostMs));
  const stop = new AbortController();
  await new Promise<void>((resolve) => {
    const timer = world.startTimer(ms, resolve);
    store.changed?.(operation.id, decision.revision, stop.signal).then(
      () => {
        timer.cancel();
        resolve();
      },
      () => {
        // Waking is a courtesy of the store; the timer is what we rely on.
      },
    );
  });
  stop.abort();
}
