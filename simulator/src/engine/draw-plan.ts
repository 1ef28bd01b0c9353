import type { EffectKind, Policy } from 'onceward';
import { Dice } from '../dice.ts';
import {
  drawBursts,
  drawFaults,
  drawNonsense,
  drawRestarts,
  drawSilence,
  HEAL_AT,
} from './draw-faults.ts';
import { simulatedPlatform } from './judge/outcome-text.ts';
import type {
  Arrival,
  EffectScript,
  Ending,
  OperationPlan,
  Plan,
  PlannedEvent,
  ProcessPlan,
  StorePlan,
  Style,
} from './plan.ts';

/** The world that a seed stands for. */
export function drawPlan(seed: number): Plan {
  const dice = new Dice(seed, 1);
  // Drawn apart, so that all else that a seed stands for stays as it was.
  const drawn = drawStore(dice);
  const clocks = new Dice(seed, 5);
  const hasClock = !drawn.embedded && clocks.chance(0.5);
  const store = { ...drawn, scansShares: new Dice(seed, 4).chance(0.4), hasClock };
  const processes = Array.from({ length: store.embedded ? 1 : dice.between(1, 3) }, () => {
    const process = drawProcess(dice);
    return hasClock && clocks.chance(0.4)
      ? { ...process, skewMs: drawWrongClock(clocks) }
      : process;
  });
  const drawnOperations = drawOperations(dice, store);
  const onces = new Dice(seed, 8);
  const operations = drawnOperations.map((operation) =>
    operation.style === 'execute' && onces.chance(0.15)
      ? { ...operation, style: 'once' as const }
      : operation,
  );
  const leaving = new Dice(seed, 7);
  const arrivals = drawArrivals(dice, drawnOperations, processes.length).map((arrival) =>
    arrival.via === 'transaction' && leaving.chance(0.3)
      ? { ...arrival, abortAfterMs: leaving.pick([20, 300, 2_000]) }
      : arrival,
  );
  // Some worlds are calm: what goes wrong there goes wrong without an excuse.
  const isCalm = !dice.chance(0.85);
  const faults = isCalm ? [] : drawFaults(dice, operations, processes.length, arrivals);
  const nonsense = isCalm ? [] : drawNonsense(new Dice(seed, 6), processes.length);
  const silence = isCalm ? [] : drawSilence(new Dice(seed, 9), processes.length);
  const restarts =
    isCalm || !hasClock ? [] : drawRestarts(new Dice(seed, 10), processes.length, drawWrongClock);
  const bursts = isCalm ? drawBursts(new Dice(seed, 11), processes.length, arrivals) : [];
  const events = [...arrivals, ...faults, ...nonsense, ...silence, ...restarts, ...bursts].map(
    (event) =>
      event.kind === 'arrive' && operations[event.operation]!.style === 'once'
        ? throughOnce(event)
        : event,
  );
  return { seed, store, processes, operations, events, healAt: HEAL_AT };
}

/** `once` has no word for a rejection, a release or a doubt but a throw. */
function throughOnce(arrival: Arrival): PlannedEvent {
  const { script, fingerprint } = arrival;
  const hasWord = !['reject', 'release', 'doubt'].includes(script.ending);
  return {
    ...arrival,
    via: 'once',
    input: fingerprint,
    fingerprint: fingerprintOf(fingerprint),
    script: hasWord ? script : { ...script, ending: 'commit' },
  };
}

/** The fingerprint that `once` makes of an input. */
export function fingerprintOf(input: string): string {
  return simulatedPlatform.digest(JSON.stringify(input));
}

function drawStore(dice: Dice): Omit<StorePlan, 'scansShares' | 'hasClock'> {
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
      maxBytes: dice.pick([1_000, 100_000, 2_000_000]),
      maxRunning: dice.chance(0.05) ? 1 : 1_000,
    },
    sweepEveryMs: dice.chance(0.6) ? dice.pick([200, 700, 2_000]) : null,
    skewMs: dice.between(-15, 15),
  };
}

function drawWrongClock(dice: Dice): number {
  return dice.pick([-600_000, -30_000, -3_000, 3_000, 30_000, 600_000]);
}

function drawOperations(dice: Dice, store: StorePlan): OperationPlan[] {
  const effect = drawEffect(dice);
  const policy = drawPolicy(dice);
  // The neighbours share a key or a scope with the first, to catch an engine that mixes them up.
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
    steps: takesSteps(operation) && dice.chance(0.3) ? dice.between(1, 3) : 0,
    outcomeBytes: dice.chance(0.1) ? dice.pick([150, 299, 1_000]) : dice.below(40),
  };
}

function takesSteps({ style }: OperationPlan): boolean {
  return style === 'execute' || style === 'mixed';
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
