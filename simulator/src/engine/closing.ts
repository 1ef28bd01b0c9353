import { fingerprintOf } from './draw-plan.ts';
import type { Call } from './judge/case-file.ts';
import { EPOCH } from './life.ts';
import type { Arrival, OperationPlan } from './plan.ts';
import type { Simulation } from './simulation.ts';

/** By then the slowest fault is over, and what was on its way has arrived. */
const SETTLES_AFTER_MS = 4_000;
/** Long enough for the longest effect and backoff, and for a lease given by a clock that was far ahead. */
const PATIENCE_MS = 80_000;
const ASK_AGAIN_MS = 700;

/**
 * After the world has healed, every key is sent once more, at every process. Each must be answered in the
 * end: the answer, or that it is in doubt. Then no caller may be left waiting.
 */
export function closeDown(simulation: Simulation, over: () => void): void {
  const { plan, scheduler } = simulation;
  scheduler.at(plan.healAt + SETTLES_AFTER_MS, () => whenRowsAreFree(simulation, askEverybody));
  scheduler.at(plan.healAt + SETTLES_AFTER_MS + PATIENCE_MS, () => {
    const waits = simulation.calls.some((call) => !call.ended && call.life.alive);
    const who = waits ? 'a caller is still waiting' : 'a record is still overdue';
    simulation.judge.complain(`${who} long after the world healed`, null);
  });

  function askEverybody(): void {
    let open = plan.operations.length * plan.processes.length;
    const ended = () => {
      open -= 1;
      if (open > 0) return;
      waitForCallers(simulation, over);
    };
    for (const operation of plan.operations) {
      plan.processes.forEach((_, process) => {
        askUntilTold(simulation, operation, process, ended);
      });
    }
  }
}

/** A transaction holds its row as long as it lasts: who asks meanwhile may rightly run out of time behind it. */
function whenRowsAreFree(simulation: Simulation, then: () => void): void {
  const isOpen = ({ ended, life, arrival }: Call) =>
    !ended && life.alive && arrival.via === 'transaction';
  if (!simulation.calls.some(isOpen)) then();
  else simulation.scheduler.after(ASK_AGAIN_MS, () => whenRowsAreFree(simulation, then));
}

function askUntilTold(
  simulation: Simulation,
  operation: OperationPlan,
  process: number,
  ended: () => void,
): void {
  simulation.arrive(closingCall(operation, process), (call) => {
    if (isTold(simulation, call)) ended();
    else {
      simulation.scheduler.after(ASK_AGAIN_MS, () => {
        askUntilTold(simulation, operation, process, ended);
      });
    }
  });
}

function isTold(simulation: Simulation, call: Call): boolean {
  const { result, file } = call;
  if (result === null || result === 'threw') {
    simulation.judge.complain('a call failed though all is well', file);
    return true;
  }
  if (result.kind !== 'refused') return true;
  if (result.reason === 'store_unavailable' || result.reason === 'deadline') {
    simulation.judge.complain(`told ${result.reason} though all is well`, file);
  }
  return result.reason === 'in_doubt' || result.reason === 'mismatch';
}

function waitForCallers(simulation: Simulation, over: () => void): void {
  const waiting = simulation.calls.some((call) => !call.ended && call.life.alive);
  if (!waiting && !isSomethingOverdue(simulation)) over();
  else simulation.scheduler.after(ASK_AGAIN_MS, () => waitForCallers(simulation, over));
}

/** Where somebody sweeps, nothing stays that is due: it is forgotten, or its doubt is recorded. */
function isSomethingOverdue({ plan, scheduler, table }: Simulation): boolean {
  if (plan.processes.every(({ sweepEveryMs }) => sweepEveryMs === null)) return false;
  const due = table.scan({ dueBefore: EPOCH + scheduler.now, limit: Infinity });
  return due.some(({ corrupted }) => !corrupted);
}

function closingCall(operation: OperationPlan, process: number): Arrival {
  return {
    kind: 'arrive',
    at: 0,
    process,
    operation: operation.index,
    fingerprint: operation.style === 'once' ? fingerprintOf('same') : 'same',
    via: operation.style === 'transaction' ? 'transaction' : 'execute',
    script: {
      beforeMs: 5,
      afterMs: 5,
      detached: false,
      ending: 'commit',
      steps: 0,
      outcomeBytes: 0,
    },
    waitMs: 100,
    probe: false,
    abortAfterMs: null,
    renewEveryMs: null,
    finishAt: process,
    vanishes: false,
  };
}
