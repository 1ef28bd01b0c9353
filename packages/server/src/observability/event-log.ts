import type { EngineEvent } from 'onceward';
import { isRun } from 'onceward/jobs';
import { maskKey } from 'onceward/keys';
import type { Level, Logger } from 'pino';

/** The names under which log lines are searched for. Stable: dashboards and alerts of users hang on them. */
const LINES = {
  claimed: ['debug', 'idempotency_cache_miss'],
  settled: ['debug', 'idempotency_settled'],
  replayed: ['info', 'idempotency_cache_hit'],
  mismatch: ['warn', 'idempotency_key_mismatch'],
  expired: ['warn', 'idempotency_key_expired'],
  waited: ['info', 'idempotency_waited'],
  in_progress: ['warn', 'idempotency_concurrent_request'],
  released: ['debug', 'idempotency_released'],
  in_doubt: ['error', 'idempotency_in_doubt'],
  doubt_resolved: ['warn', 'idempotency_doubt_resolved'],
  refused_in_doubt: ['warn', 'idempotency_refused_in_doubt'],
  fence_lost: ['warn', 'idempotency_fence_lost'],
  over_quota: ['warn', 'idempotency_over_quota'],
  deadline: ['info', 'idempotency_caller_left'],
  unprotected: ['error', 'idempotency_unprotected'],
  unrecorded: ['error', 'idempotency_unrecorded'],
  late_settle_dropped: ['error', 'idempotency_settle_dropped'],
  unreadable: ['error', 'idempotency_unreadable'],
  store_error: ['error', 'idempotency_store_error'],
  clock_skew: ['warn', 'idempotency_clock_skew'],
  swept: ['debug', 'idempotency_swept'],
} as const satisfies Record<EngineEvent['type'], readonly [Level, string]>;

/** Writes one line for each event. Keys and scopes are masked; events have no bodies. */
export function logEvents(log: Logger): (event: EngineEvent) => void {
  return (event) => {
    const [level, standard] = LINES[event.type];
    if (!log.isLevelEnabled(level)) return;
    // Runs of jobs are no requests: they have names of their own.
    const ofRun = 'id' in event && isRun(event.id);
    const name = ofRun ? standard.replace(/^idempotency_/, 'job_run_') : standard;
    log[level]({ event: name, ...describe(event) }, name);
  };
}

function describe(event: EngineEvent): Record<string, unknown> {
  const { type: _type, ...rest } = event;
  if (event.type === 'store_error') {
    const { error } = event;
    return { phase: event.phase, err: error instanceof Error ? error : new Error(String(error)) };
  }
  if (!('id' in rest)) return rest;
  const { id, ...facts } = rest;
  // A scope names a user or a tenant: it is masked as keys are.
  const named = { scope: maskKey(id.scope), key: maskKey(id.key) };
  if (event.type !== 'replayed') return { ...named, ...facts };
  const { near, state: cached_status, settledAt } = event;
  const cached_at = settledAt === undefined ? undefined : new Date(settledAt).toISOString();
  return { ...named, near, cached_status, cached_at };
}
