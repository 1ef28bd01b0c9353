import { type Engine, type FencedChange, type FencedResult, OncewardError } from 'onceward';
import { noteEnding } from './callers.ts';
import { judgeReserved } from './judge/answer-rules.ts';
import type { AttemptEnding, AttemptFact, Call } from './judge/case-file.ts';
import { outcomeOf } from './judge/outcome-text.ts';
import { Halted } from './life.ts';
import type { Simulation } from './simulation.ts';

/** How often a remote caller asks again before it gives up. */
const ASKS = 6;
const ASK_TIMEOUT_MS = 1_500;

/**
 * A caller in another process altogether: it reserves, does its work, and finishes under its fence, through whichever
 * process answers. It outlives the processes it talks to, and may itself vanish at any moment.
 */
export async function callReserve(simulation: Simulation, call: Call): Promise<void> {
  const { arrival, file } = call;
  const { id, effect, policy } = file.operation;
  const { fingerprint, waitMs } = arrival;
  const request = { id, fingerprint, effect, policy: { ...policy, waitMs } };
  const result = await ask(
    simulation,
    arrival.process,
    (engine) => engine.reserve(request),
    waitMs,
  );
  if (result === null) return;
  // A reply of a dead process does not arrive, so the process was alive when it decided.
  const complaint = judgeReserved(call, result, simulation.table.get(id));
  if (complaint !== null) simulation.judge.complain(complaint, file);
  if (result.decision !== 'claimed') return;
  const attempt = file.attempts.get(result.fence);
  if (attempt === undefined) return;
  attempt.reserver = 'active';
  await work(simulation, call, attempt);
  attempt.reserver = 'done';
}

async function work(simulation: Simulation, call: Call, attempt: AttemptFact): Promise<void> {
  const { arrival } = call;
  const { script, renewEveryMs } = arrival;
  const ends = simulation.scheduler.now + script.beforeMs + script.afterMs;
  const happensAt = simulation.scheduler.now + script.beforeMs;
  let happened = false;
  while (simulation.scheduler.now < ends || !happened) {
    const pause = renewEveryMs ?? script.beforeMs + script.afterMs;
    const next = Math.min(happened ? ends : happensAt, simulation.scheduler.now + pause);
    await simulation.sleep(next - simulation.scheduler.now);
    if (!happened && simulation.scheduler.now >= happensAt) {
      happened = true;
      if (endingOf(call).as === 'settle') {
        simulation.judge.seeHappening(call.file, attempt, null);
      }
    } else if (renewEveryMs !== null && simulation.scheduler.now < ends) {
      const renewed = await finish(simulation, call, attempt, { as: 'renewed' }, 1);
      if (renewed?.done === false) break;
    }
  }
  if (!happened || arrival.vanishes) return;
  await settle(simulation, call, attempt);
}

async function settle(simulation: Simulation, call: Call, attempt: AttemptFact): Promise<void> {
  const { file } = call;
  const ending = endingOf(call);
  noteEnding(simulation, attempt, ending);
  const outcome = outcomeOf(nameOf(call), call.arrival.script.outcomeBytes % 200);
  const change: FencedChange =
    ending.as === 'settle' ? { as: ending.state, outcome } : { as: 'released' };
  const result = await finish(simulation, call, attempt, change, ASKS);
  if (result?.done !== true || ending.as !== 'settle') return;
  const kept = file.settled.some(
    (fact) => fact.fence === attempt.fence && fact.byAttempt && fact.state === ending.state,
  );
  if (!kept) simulation.judge.complain('a commit was acknowledged that was never kept', file);
}

/** Asks until it is answered, or its patience ends. */
async function finish(
  simulation: Simulation,
  call: Call,
  attempt: AttemptFact,
  change: FencedChange,
  asks: number,
): Promise<FencedResult | null> {
  const { id, policy } = call.file.operation;
  for (let left = asks; left > 0; left -= 1) {
    const through = left % 2 === 0 ? call.arrival.finishAt : call.arrival.process;
    const result = await ask(
      simulation,
      through,
      (engine) => engine.writeFenced(id, attempt.fence, policy, change),
      0,
    );
    if (result !== null) return result;
    await simulation.sleep(100);
  }
  return null;
}

/** One question to one process. `null`: it failed, or nobody answered in time. */
async function ask<T>(
  simulation: Simulation,
  process: number,
  question: (engine: Engine) => Promise<T>,
  waitMs: number,
): Promise<T | null> {
  const running = simulation.running(process);
  if (running === null) return null;
  const { engine, life } = running;
  return new Promise((resolve) => {
    simulation.scheduler.after(ASK_TIMEOUT_MS + waitMs, () => resolve(null));
    life.deliver(() => {
      question(engine).then(
        (value) => {
          if (life.alive) resolve(value);
        },
        (error) => {
          if (!(error instanceof OncewardError || error instanceof Halted)) {
            simulation.judge.complain(`unexpected ${String(error)}`, null);
          }
          if (life.alive) resolve(null);
        },
      );
    });
  });
}

function endingOf(call: Call): AttemptEnding {
  const { ending } = call.arrival.script;
  if (ending === 'release' || ending === 'throw_before' || ending === 'unknown_before') {
    return { as: 'release' };
  }
  const state = ending === 'reject' ? 'rejected' : 'committed';
  return { as: 'settle', state, outcome: nameOf(call) };
}

function nameOf({ file, arrival, number }: Call): string {
  const { scope, key } = file.operation.id;
  return `${scope}/${key}/${arrival.fingerprint}/${number}`;
}
