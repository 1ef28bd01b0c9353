import type { Run, RunEnd } from '../near/near-tier.ts';
import type { Operation } from '../operation.ts';
import type { EngineParts } from '../parts.ts';
import type { Decision } from '../record/decide.ts';
import type { DurationMs } from '../units.ts';

/** How a wait behind a run of this process ended. */
type Waited = RunEnd | 'timed_out' | 'aborted';

/** Waits for a run of this process to end. */
export function waitForRun(
  parts: EngineParts,
  operation: Pick<Operation, 'signal'>,
  run: Run,
  atMostMs: DurationMs,
): Promise<Waited> {
  return waitAtMost(parts, operation, atMostMs, (resolve) => run.whenEnded(resolve));
}

/** Waits until a run of this process has ended, or is known to run its effect: then the time is up. */
export function waitForDecision(
  parts: EngineParts,
  operation: Pick<Operation, 'signal'>,
  run: Run,
  atMostMs: DurationMs,
): Promise<Waited> {
  return waitAtMost(parts, operation, atMostMs, (resolve) => {
    run.whenDecided(() => {
      if (run.claimed) resolve('timed_out');
      else run.whenEnded(resolve);
    });
  });
}

function waitAtMost(
  parts: EngineParts,
  { signal }: Pick<Operation, 'signal'>,
  atMostMs: DurationMs,
  start: (resolve: (end: Waited) => void) => void,
): Promise<Waited> {
  if (signal?.aborted) return Promise.resolve('aborted');
  return new Promise((resolve) => {
    const finish = (end: Waited) => {
      timer.cancel();
      signal?.removeEventListener('abort', leave);
      resolve(end);
    };
    const leave = () => finish('aborted');
    const timer = parts.world.startTimer(atMostMs, () => finish('timed_out'), true);
    signal?.addEventListener('abort', leave, { once: true });
    start(finish);
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
  const { clock, store, world } = parts;
  const now = clock.time().leases;
  const age = decision.leaseUntil - operation.policy.leaseMs;
  const pause = Math.min(LONGEST_POLL_MS, Math.max(FIRST_POLL_MS, (now - age) / 4));
  const polling = store.changed === undefined ? pause : LONGEST_POLL_MS;
  const untilLapse = Math.max(1, decision.leaseUntil - now);
  const ms = Math.max(1, Math.min(polling * (0.5 + world.random()), untilLapse, atMostMs));
  const stop = new AbortController();
  const { signal } = operation;
  await new Promise<void>((resolve) => {
    const wake = () => {
      timer.cancel();
      signal?.removeEventListener('abort', wake);
      resolve();
    };
    const timer = world.startTimer(ms, wake, true);
    if (signal?.aborted) wake();
    else signal?.addEventListener('abort', wake, { once: true });
    store.changed?.(operation.id, decision.revision, stop.signal).then(wake, () => {
      // Waking is a courtesy of the store; the timer is what we rely on.
    });
  });
  stop.abort();
}
