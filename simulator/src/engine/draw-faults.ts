import type { Dice } from '../dice.ts';
import type { Arrival, OperationPlan, PlannedEvent, StoreFault } from './plan.ts';

/** Faults stop here; the longest of them are over a little later. */
export const HEAL_AT = 8_000;

/** What goes wrong in a world, and who meddles with it. */
export function drawFaults(
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
  often(0.3, 2, () => ({
    kind: 'crash',
    at: sometime(),
    process: someone(),
    downMs: down(dice),
    graceMs: dice.chance(0.3) ? dice.pick([0, 300, 2_000]) : null,
  }));
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
  if (processes > 1 && dice.chance(0.15))
    events.push(...drawLateWorker(dice, operations, arrivals));
  return events;
}

/** Drawn apart, so that all else that a seed stands for stays as it was. */
export function drawNonsense(dice: Dice, processes: number): PlannedEvent[] {
  if (!dice.chance(0.15)) return [];
  const fault = { as: 'nonsense', rejects: dice.chance(0.5) } as const;
  const process = dice.below(processes);
  if (dice.chance(0.5)) {
    return [{ kind: 'store_fault', process, call: dice.between(1, 20), fault }];
  }
  const at = dice.below(HEAL_AT);
  return [{ kind: 'outage', at, forMs: dice.pick([100, 1_000, 4_000]), process, fault }];
}

/** Connections of transactions that lead nowhere, from their first statement or from a later one. */
export function drawSilence(dice: Dice, processes: number): PlannedEvent[] {
  if (!dice.chance(0.5)) return [];
  return Array.from({ length: dice.between(1, 3) }, () => ({
    kind: 'silence',
    process: dice.below(processes),
    transaction: dice.between(1, 4),
    silence: { statement: dice.below(4), delivered: dice.chance(0.5) },
  }));
}

/** A second or so of transactions, while somebody arrives. */
export function drawBursts(
  dice: Dice,
  processes: number,
  arrivals: readonly Arrival[],
): PlannedEvent[] {
  if (!dice.chance(0.3)) return [];
  const { at } = dice.pick(arrivals);
  const [transactions, process] = [dice.between(20, 150), dice.below(processes)];
  return [
    { kind: 'burst', at: Math.max(0, at - 20), process, transactions, eachMs: dice.between(1, 10) },
  ];
}

/** A machine that comes back with its clock not set yet. */
export function drawRestarts(
  dice: Dice,
  processes: number,
  wrongClock: (dice: Dice) => number,
): PlannedEvent[] {
  if (!dice.chance(0.2)) return [];
  const process = dice.below(processes);
  const at = dice.below(HEAL_AT);
  return [
    { kind: 'crash', at, process, downMs: down(dice), graceMs: null, clockOffMs: wrongClock(dice) },
  ];
}

/**
 * A process stalls in the midst of an effect, another caller arrives meanwhile, and an operator answers the doubt:
 * when the process comes to itself again, all has been said. Chance alone would seldom bring these together.
 */
function drawLateWorker(
  dice: Dice,
  operations: readonly OperationPlan[],
  arrivals: readonly Arrival[],
): PlannedEvent[] {
  const slow = dice.pick(arrivals);
  const { leaseMs } = operations[slow.operation]!.policy;
  const other = slow.process === 0 ? 1 : 0;
  const stopsAt = slow.at + dice.below(60);
  return [
    {
      kind: 'pause',
      at: stopsAt,
      process: slow.process,
      forMs: 4 * leaseMs,
      steadyStops: dice.chance(0.2),
    },
    { ...slow, at: Math.round(stopsAt + leaseMs * 1.5), process: other },
    {
      kind: 'operator',
      at: Math.round(stopsAt + leaseMs * (2 + dice.unit())),
      process: other,
      operation: slow.operation,
      action: 'resolve',
      careless: false,
      keepMs: dice.pick([5_000, 60_000]),
    },
  ];
}

function down(dice: Dice): number {
  return dice.pick([1, 50, 1_000]);
}

function drawStoreFault(dice: Dice): StoreFault {
  const silent = dice.chance(0.4);
  switch (dice.below(7)) {
    case 0:
    case 1:
      return { as: 'lost_reply', silent };
    case 2:
      return { as: 'lost_request', silent };
    case 3:
      return { as: 'late', silent, byMs: dice.pick([5, 60, 300, 2_500]) };
    case 4:
      return { as: 'repeated', byMs: dice.pick([1, 20]) };
    case 5:
      return { as: 'slow', byMs: dice.pick([20, 120, 350]) };
    default:
      return { as: 'refused' };
  }
}
