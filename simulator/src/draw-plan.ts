import type { EffectKind, Policy } from 'onceward';
import { Dice } from './dice.ts';
import type {
  Arrival,
  EffectScript,
  Ending,
  OperationPlan,
  Plan,
  PlannedEvent,
  ProcessPlan,
  StoreFault,
  StorePlan,
  Style,
} from './plan.ts';

/** Faults stop here; the longest of them are over a little later. */
const HEAL_AT = 8_000;

/** The world that a seed stands for. */
export function drawPlan(seed: number): Plan {
  const dice = new Dice(seed, 1);
  const store = drawStore(dice);
  const processes = Array.from({ length: store.embedded ? 1 : dice.between(1, 3) }, () =>
    drawProcess(dice),
  );
  const operations = drawOperations(dice, store);
  const arrivals = drawArrivals(dice, operations, processes.length);
  // Some worlds are calm: what goes wrong there goes wrong without an excuse.
  const faults = dice.chance(0.85) ? drawFaults(dice, operations, processes.length, arrivals) : [];
  const events = [...arrivals, ...faults];
  return { seed, store, processes, operations, events, healAt: HEAL_AT };
}

function drawStore(dice: Dice): StorePlan {
  return {
    embedded: dice.chance(0.25),
    wakesWaiters: dice.chance(0.5),
    forgetsDue: dice.chance(0.5),
    latencyMs: dice.pick([0, 2, 10]),
    maxRecordBytes: dice.chance(0.05) ? 400 : 100_000,
  };
}

function drawProcess(dice: Dice): ProcessPlan {
  return {
    near: {
      maxEntries: dice.pick([0, 1, 2, 1_000]),
      maxBytes: dice.pick([1_000, 100_000]),
      maxRunning: dice.chance(0.05) ? 1 : 1_000,
    },
    sweepEveryMs: dice.chance(0.6) ? dice.pick([200, 700, 2_000]) : null,
    skewMs: dice.between(-15, 15),
  };
}

function drawOperations(dice: Dice, store: StorePlan): OperationPlan[] {
  const effect = drawEffect(dice);
  const policy = drawPolicy(dice);
  // The neighbours share a key or a scope with the first, to tempt whoever mixes them up.
  const ids = [
    { scope: 'shop', key: 'k1' },
    { scope: 'bank', key: 'k1' },
    { scope: 'shop', key: 'k2' },
  ];
  return ids.slice(0, dice.pick([1, 1, 2, 3])).map((id, index) => {
    const style = drawStyle(dice, store);
    return {
      index,
      id,
      style,
      effect:
        style === 'transaction'
          ? { kind: 'transaction' }
          : dice.chance(0.7)
            ? effect
            : drawEffect(dice),
      policy: dice.chance(0.7) ? policy : drawPolicy(dice),
    };
  });
}

function drawStyle(dice: Dice, store: StorePlan): Style {
  const throwOf = dice.unit();
  if (throwOf < 0.7) return 'execute';
  if (throwOf < 0.82) return 'reserve';
  if (throwOf < 0.9 || store.embedded) return 'mixed';
  return 'transaction';
}

function drawEffect(dice: Dice): EffectKind {
  const throwOf = dice.unit();
  if (throwOf < 0.5) return { kind: 'external', onLapse: 'in_doubt' };
  if (throwOf < 0.75) return { kind: 'external', onLapse: 'take_over' };
  return { kind: 'downstream' };
}

function drawPolicy(dice: Dice): Policy {
  return {
    leaseMs: dice.pick([150, 400, 1_000, 3_000]),
    waitMs: 0,
    keepCommittedMs: dice.pick([60, 500, 2_000, 8_000, 60_000]),
    keepRejectedMs: dice.pick([60, 500, 2_000, 60_000]),
    onThrow: dice.pick(['release', 'reject', 'in_doubt']),
    storeTimeoutMs: dice.pick([40, 150, 400]),
    onStoreDown: dice.chance(0.06) ? 'run_unprotected' : 'refuse',
    maxOutcomeBytes: 300,
    packAboveBytes: 100,
  };
}

function drawArrivals(
  dice: Dice,
  operations: readonly OperationPlan[],
  processes: number,
): Arrival[] {
  const arrivals: Arrival[] = [];
  for (const operation of operations) {
    const oddOneOut = dice.chance(0.25);
    let at = dice.below(1_500);
    const count = dice.between(2, operation.index === 0 ? 8 : 4);
    for (let n = 0; n < count; n += 1) {
      arrivals.push(drawArrival(dice, operation, processes, at, oddOneOut && dice.chance(0.3)));
      // Duplicates come in bursts, then after a pause in which leases and answers may have run out.
      at += dice.chance(0.5) ? dice.below(30) : dice.below(2_500);
    }
  }
  return arrivals;
}

function drawArrival(
  dice: Dice,
  operation: OperationPlan,
  processes: number,
  at: number,
  odd: boolean,
): Arrival {
  const { style } = operation;
  const mixedVia = dice.chance(0.5) ? 'reserve' : 'execute';
  return {
    kind: 'arrive',
    at,
    process: dice.below(processes),
    operation: operation.index,
    fingerprint: odd ? 'other' : 'same',
    via: style === 'mixed' ? mixedVia : style,
    script: drawScript(dice, operation),
    waitMs: dice.pick([0, 100, 700, 4_000]),
    probe: dice.chance(0.2),
    abortAfterMs: dice.chance(0.08) ? dice.below(40) : null,
    renewEveryMs: dice.chance(0.5) ? Math.ceil(operation.policy.leaseMs / 3) : null,
    finishAt: dice.below(processes),
    vanishes: dice.chance(0.15),
  };
}

function drawScript(dice: Dice, operation: OperationPlan): EffectScript {
  const { leaseMs, onThrow } = operation.policy;
  const long = dice.chance(0.2) ? leaseMs * dice.between(1, 3) : dice.pick([0, 20, 300]);
  const cut = dice.unit();
  return {
    beforeMs: Math.round(long * cut),
    afterMs: Math.round(long * (1 - cut)),
    detached: dice.chance(0.4),
    ending: drawEnding(dice, onThrow),
    steps: operation.style === 'execute' && dice.chance(0.3) ? dice.between(1, 3) : 0,
    outcomeBytes: dice.chance(0.1) ? dice.pick([150, 299, 1_000]) : dice.below(40),
  };
}

function drawEnding(dice: Dice, onThrow: Policy['onThrow']): Ending {
  const throwOf = dice.unit();
  if (throwOf < 0.66) return 'commit';
  if (throwOf < 0.74) return 'reject';
  if (throwOf < 0.81) return 'release';
  if (throwOf < 0.87) return 'throw_before';
  // Where a throw means "nothing happened", an effect that happened must not throw.
  if (throwOf < 0.91) return onThrow === 'release' ? 'commit' : 'throw_after';
  if (throwOf < 0.94) return 'unknown_after';
  if (throwOf < 0.97) return 'unknown_before';
  return 'doubt';
}

function drawFaults(
  dice: Dice,
  operations: readonly OperationPlan[],
  processes: number,
  arrivals: readonly Arrival[],
): PlannedEvent[] {
  const events: PlannedEvent[] = [];
  const someone = () => dice.below(processes);
  // Most faults come when there is something to spoil.
  const sometime = () =>
    dice.chance(0.6) ? dice.pick(arrivals).at + dice.below(400) : dice.below(HEAL_AT);
  const often = (probability: number, most: number, add: () => PlannedEvent) => {
    if (!dice.chance(probability)) return;
    for (let left = dice.between(1, most); left > 0; left -= 1) events.push(add());
  };
  often(0.6, 6, () => ({
    kind: 'store_fault',
    process: someone(),
    call: dice.chance(0.5) ? dice.between(1, 12) : dice.between(1, 60),
    fault: drawStoreFault(dice),
  }));
  often(0.3, 2, () => ({
    kind: 'outage',
    at: sometime(),
    forMs: dice.pick([100, 1_000, 4_000]),
    process: dice.chance(0.5) ? null : someone(),
    fault: drawStoreFault(dice),
  }));
  often(0.3, 2, () => ({ kind: 'crash', at: sometime(), process: someone(), downMs: down(dice) }));
  often(0.35, 2, () => ({
    kind: 'crash_point',
    process: someone(),
    pass: dice.chance(0.7) ? dice.between(1, 12) : dice.between(1, 50),
    downMs: down(dice),
  }));
  often(0.3, 2, () => ({
    kind: 'pause',
    at: sometime(),
    process: someone(),
    forMs: dice.pick([100, 1_000, 4_000]),
    steadyStops: dice.chance(0.2),
  }));
  often(0.2, 2, () => ({
    kind: 'clock_jump',
    at: sometime(),
    process: someone(),
    byMs: dice.pick([-3_600_000, -2_000, 500, 5_000, 20_000]),
  }));
  const somewhere = () => dice.below(operations.length);
  often(0.12, 1, () => ({
    kind: 'corrupt',
    at: sometime(),
    operation: somewhere(),
    how: dice.pick(['flip', 'flip', 'cut', 'newer_schema']),
  }));
  // Operators are called when a lease has lapsed, at the soonest.
  const afterLapse = () => {
    const { at, operation } = dice.pick(arrivals);
    return at + Math.round(operations[operation]!.policy.leaseMs * (1 + 2 * dice.unit()));
  };
  often(0.35, 3, () => ({
    kind: 'operator',
    at: dice.chance(0.6) ? afterLapse() : sometime(),
    process: someone(),
    operation: somewhere(),
    action: dice.pick(['resolve', 'resolve', 'resolve', 'purge', 'extend']),
    careless: dice.chance(0.1),
    keepMs: dice.pick([500, 5_000, 60_000]),
  }));
  return events;
}

function down(dice: Dice): number {
  return dice.pick([1, 50, 1_000]);
}

function drawStoreFault(dice: Dice): StoreFault {
  const silent = dice.chance(0.4);
  switch (dice.below(6)) {
    case 0:
    case 1:
      return { as: 'lost_reply', silent };
    case 2:
      return { as: 'lost_request', silent };
    case 3:
      return { as: 'late', silent, byMs: dice.pick([5, 60, 300, 2_500]) };
    case 4:
      return { as: 'slow', byMs: dice.pick([20, 120, 350]) };
    default:
      return { as: 'refused' };
  }
}
