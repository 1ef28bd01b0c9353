import type { EngineEvent } from 'onceward';
import { isRun } from 'onceward/jobs';
import type { Instruments } from './instruments.ts';

/** From an instant wake-up to the longest wait a profile allows. */
const WAIT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30];

const STORE_PHASES = ['claim', 'read', 'renew', 'settle', 'release', 'doubt', 'sweep'];
const DOUBT_REASONS = ['lease_lapsed', 'effect_threw', 'unreadable', 'outcome_unknown'];

type Counts = {
  readonly [Type in EngineEvent['type']]: (event: Extract<EngineEvent, { type: Type }>) => void;
};

/** The engine's events, as numbers. */
export function countEvents(make: Instruments): (event: EngineEvent) => void {
  const counts: Counts = { ...countArrivals(make), ...countEndings(make), ...countFaults(make) };
  const countRun = countRuns(make);
  return (event) => {
    // A run is no arrival: it has no request, and would distort the hit rate.
    if ('id' in event && isRun(event.id) && countRun(event)) return;
    // The table has one entry for each type, which the compiler cannot see through a lookup.
    (counts[event.type] as (event: EngineEvent) => void)(event);
  };
}

/** False: it is counted like any other. Doubts, lost fences and what the store did are the same for both. */
function countRuns(make: Instruments): (event: EngineEvent) => boolean {
  const results = ['result', ['started', 'taken_over', 'succeeded', 'failed', 'released']] as const;
  const runs = make.counter('job_runs_total', 'Runs of jobs, by result.', results);
  return (event) => {
    switch (event.type) {
      case 'claimed':
        runs.inc({ result: event.attempt > 1 ? 'taken_over' : 'started' });
        return true;
      case 'settled':
        runs.inc({ result: event.state === 'committed' ? 'succeeded' : 'failed' });
        return true;
      case 'released':
        runs.inc({ result: 'released' });
        return true;
      case 'replayed':
      case 'waited':
      case 'in_progress':
      case 'over_quota':
      case 'deadline':
      case 'refused_in_doubt':
        return true;
      default:
        return false;
    }
  };
}

function countArrivals(make: Instruments) {
  const tiers = ['tier', ['near', 'store']] as const;
  const results = ['result', ['waited', 'refused']] as const;
  const hits = make.counter('hits_total', 'Arrivals that found their operation settled.', tiers);
  const misses = make.counter('misses_total', 'Arrivals that claimed, and so ran the effect.');
  const takeovers = make.counter('takeovers_total', 'Claims taken over from a lost attempt.');
  const replays = make.counter('replays_total', 'Answers that were given again.');
  const conflicts = make.counter('conflicts_total', 'Keys that came with another request.');
  const expired = make.counter('expired_total', 'Keys that came after their window had passed.');
  const concurrent = make.counter('concurrent_total', 'Arrivals that met a running one.', results);
  const waits = make.histogram('wait_seconds', 'Time waited for a running one.', WAIT_BUCKETS);
  const overQuota = make.counter('over_quota_total', 'Arrivals refused for lack of room.');
  const deadline = make.counter('deadline_total', 'Arrivals whose caller left before the effect.');
  const inDoubt = make.counter('refused_in_doubt_total', 'Arrivals that met a doubt.');
  return {
    claimed({ attempt }) {
      misses.inc();
      if (attempt > 1) takeovers.inc();
    },
    replayed({ near }) {
      replays.inc();
      hits.inc({ tier: near ? 'near' : 'store' });
    },
    mismatch: () => conflicts.inc(),
    expired: () => expired.inc(),
    waited({ waitedMs }) {
      waits.observe(waitedMs / 1_000);
      concurrent.inc({ result: 'waited' });
    },
    in_progress({ waitedMs }) {
      waits.observe(waitedMs / 1_000);
      concurrent.inc({ result: 'refused' });
    },
    over_quota: () => overQuota.inc(),
    deadline: () => deadline.inc(),
    refused_in_doubt: () => inDoubt.inc(),
  } satisfies Partial<Counts>;
}

function countEndings(make: Instruments) {
  const states = ['state', ['committed', 'rejected']] as const;
  const reasons = ['reason', DOUBT_REASONS] as const;
  const settled = make.counter('settled_total', 'Operations that ended.', states);
  const released = make.counter('released_total', 'Claims given back without an outcome.');
  const doubts = make.counter('doubts_total', 'Operations that came in doubt.', reasons);
  const resolved = make.counter('doubts_resolved_total', 'Doubts that were resolved.');
  const swept = make.counter('swept_total', 'Expired records that were removed.');
  const stale = make.gauge('stale_keys', 'Expired records that the last sweep left behind.');
  return {
    settled: ({ state }) => settled.inc({ state }),
    released: () => released.inc(),
    in_doubt: ({ reason }) => doubts.inc({ reason }),
    doubt_resolved: () => resolved.inc(),
    swept(event) {
      swept.inc(event.forgotten);
      stale.set(event.stale);
    },
  } satisfies Partial<Counts>;
}

function countFaults(make: Instruments) {
  const phases = ['phase', STORE_PHASES] as const;
  const errors = make.counter('store_errors_total', 'Calls to the store that failed.', phases);
  const fenceLost = make.counter('fence_lost_total', 'Attempts that another one overtook.');
  const unprotected = make.counter('unprotected_total', 'Effects run while the store was down.');
  const unrecorded = make.counter(
    'unrecorded_total',
    'Effects whose record had to be written later.',
  );
  const dropped = make.counter('late_settle_dropped_total', 'Outcomes that were never written.');
  const unreadable = make.counter('unreadable_total', 'Readings of records that made no sense.');
  const clock = make.gauge(
    'clock_ahead_seconds',
    'This clock against the one of the store, if they disagree.',
  );
  return {
    store_error: ({ phase }) => errors.inc({ phase }),
    fence_lost: () => fenceLost.inc(),
    unprotected: () => unprotected.inc(),
    unrecorded: () => unrecorded.inc(),
    late_settle_dropped: () => dropped.inc(),
    unreadable: () => unreadable.inc(),
    clock_skew: ({ aheadMs }) => clock.set(aheadMs / 1_000),
  } satisfies Partial<Counts>;
}
