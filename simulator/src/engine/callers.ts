import {
  type Attempt,
  type Effect,
  type Engine,
  type Execution,
  OncewardError,
  type Operation,
  OutcomeUnknown,
  type Policy,
  type Probe,
  type Settlement,
} from 'onceward';
import { judgeAnswer } from './judge/answer-rules.ts';
import type { AttemptEnding, AttemptFact, Call } from './judge/case-file.ts';
import { outcomeOf } from './judge/outcome-text.ts';
import type { Simulation } from './simulation.ts';
import type { StoreLink } from './store-link.ts';
import type { Transaction } from './transaction.ts';

/** What an effect of the simulation throws, as a caller's own code would. */
class EffectFailed extends Error {
  override readonly name = 'EffectFailed';
}

/** Who leaves before the effect has begun is let go within a few of the engine's own timeouts. */
const LEFT_MS = 1_500;
/** Settle and commit, or roll back and look, each with a timeout of its own. */
const ENDING_MS = 1_500;

/** A caller of `execute`: what it asks, what its effect does, and what it makes of the answer. */
export async function callExecute(
  simulation: Simulation,
  call: Call,
  engine: Engine,
): Promise<Execution | 'threw'> {
  return conclude(
    simulation,
    call,
    engine.execute(operationOf(simulation, call), effectOf(simulation, call)),
  );
}

export async function callTransaction(
  simulation: Simulation,
  call: Call,
  engine: Engine,
  store: StoreLink,
): Promise<Execution | 'threw'> {
  const operation = operationOf(simulation, call);
  const effect = (attempt: Attempt, tx: Transaction) =>
    runInTransaction(simulation, call, attempt, tx);
  return conclude(simulation, call, engine.executeWithin(operation, store.transact, effect));
}

export async function conclude(
  simulation: Simulation,
  call: Call,
  running: Promise<Execution>,
): Promise<Execution | 'threw'> {
  const { judge } = simulation;
  try {
    const execution = await running;
    if (!call.life.alive) return 'threw';
    const complaint = judgeAnswer(call, execution, simulation.table.get(call.file.operation.id));
    if (complaint !== null) judge.complain(complaint, call.file);
    if (isStarved(simulation, call, execution)) {
      judge.complain('a caller was refused though the store was only busy', call.file);
    }
    return execution;
  } catch (error) {
    const expected =
      error instanceof EffectFailed ||
      error instanceof OutcomeUnknown ||
      error instanceof OncewardError;
    if (call.life.alive && !expected) judge.complain(`unexpected ${String(error)}`, call.file);
    return 'threw';
  }
}

/** Less than this is too little beside transactions that take turns with the store. */
const ENOUGH_MS = 150;

function isStarved(simulation: Simulation, { file }: Call, execution: Execution): boolean {
  const isRefused = execution.kind === 'refused' && execution.reason === 'store_unavailable';
  const { storeTimeoutMs } = file.operation.policy;
  return isRefused && simulation.isFaultless && storeTimeoutMs >= ENOUGH_MS;
}

export function operationOf(simulation: Simulation, call: Call): Operation {
  const { arrival, file, life } = call;
  const { id, effect, policy } = file.operation;
  const stop = new AbortController();
  if (arrival.abortAfterMs !== null) {
    life.world.startTimer(arrival.abortAfterMs, () => {
      call.aborted = true;
      stop.abort();
      if (call.begun || call.ended) return;
      simulation.expectEnd(call, LEFT_MS, 'a caller who had left was held');
    });
  }
  return {
    id,
    fingerprint: arrival.fingerprint,
    effect,
    policy: { ...policy, waitMs: arrival.waitMs },
    ...(arrival.probe ? { probe: probeOf(simulation, call) } : {}),
    ...(arrival.abortAfterMs === null ? {} : { signal: stop.signal }),
  };
}

/** Looks where the effect lands, and never guesses. */
function probeOf(simulation: Simulation, call: Call): Probe {
  const { file, life } = call;
  return async ({ fence }) => {
    await life.sleep(5);
    const attempt = file.attempts.get(fence);
    if (attempt === undefined) return { found: 'unknown' };
    simulation.tell(`${life.token} probes fence ${fence}`);
    if (attempt.happened > 0)
      return { found: 'committed', outcome: outcomeOf(`probed ${fence}`, 0) };
    if (file.hasHappened(attempt.life) || file.mayHappen(attempt.life)) return { found: 'unknown' };
    return { found: 'nothing' };
  };
}

export function effectOf(simulation: Simulation, call: Call): Effect {
  const { life, arrival, file } = call;
  const { script } = arrival;
  return async (attempt) => {
    if (!life.alive) return never();
    const fact = simulation.judge.seeBegin(call, attempt.fence);
    if (fact !== null) simulation.claimDownstreamKey(file, attempt.downstreamKey);
    for (let step = 1; step <= script.steps; step += 1) {
      await runStep(simulation, call, attempt, fact, `step ${step}`);
    }
    if (happens(script.ending)) await happen(simulation, call, fact);
    else await life.sleep(script.beforeMs);
    await life.sleep(script.afterMs);
    return end(simulation, call, fact);
  };
}

/** Sends the effect out; a detached one lands even if its sender dies on the way. */
async function happen(simulation: Simulation, call: Call, fact: AttemptFact | null): Promise<void> {
  const { life, arrival, file } = call;
  const { script } = arrival;
  const land = () => {
    if (fact !== null) fact.inFlight = false;
    if (fact !== null) simulation.judge.seeHappening(file, fact, null);
    else simulation.tell('an unprotected effect happens');
  };
  if (!script.detached) {
    await life.sleep(script.beforeMs);
    land();
    return;
  }
  if (fact !== null) fact.inFlight = true;
  await new Promise<void>((resolve) => {
    simulation.scheduler.after(script.beforeMs, () => {
      land();
      life.deliver(resolve);
    });
  });
}

async function runStep(
  simulation: Simulation,
  call: Call,
  attempt: Attempt,
  fact: AttemptFact | null,
  name: string,
): Promise<void> {
  const { life, file } = call;
  try {
    const told = await attempt.step(name, async () => {
      await life.sleep(3);
      if (fact !== null) simulation.judge.seeHappening(file, fact, name);
      return `${name} of ${file.operation.id.scope}`;
    });
    if (told !== `${name} of ${file.operation.id.scope}`) {
      simulation.judge.complain('a step was given the result of another', file);
    }
  } catch (error) {
    noteEnding(simulation, fact, endingOfThrow(error, file.operation.policy));
    throw error;
  }
}

function end(simulation: Simulation, call: Call, fact: AttemptFact | null): Settlement {
  const { arrival, file, number } = call;
  const { script, fingerprint } = arrival;
  const { id, policy } = file.operation;
  const name = `${id.scope}/${id.key}/${fingerprint}/${number}`;
  const outcome = outcomeOf(name, script.outcomeBytes);
  const settle = (state: 'committed' | 'rejected'): Settlement => {
    noteEnding(simulation, fact, { as: 'settle', state, outcome: name });
    return { as: state, outcome };
  };
  const fail = (error: Error): never => {
    noteEnding(simulation, fact, endingOfThrow(error, policy));
    throw error;
  };
  switch (script.ending) {
    case 'commit':
      return settle('committed');
    case 'reject':
      return settle('rejected');
    case 'release':
      noteEnding(simulation, fact, { as: 'release' });
      return { as: 'released' };
    case 'doubt':
      noteEnding(simulation, fact, { as: 'doubt' });
      return { as: 'in_doubt' };
    case 'throw_before':
    case 'throw_after':
      return fail(new EffectFailed(name));
    default:
      return fail(new OutcomeUnknown(name));
  }
}

async function runInTransaction(
  simulation: Simulation,
  call: Call,
  attempt: Attempt,
  tx: Transaction,
): Promise<Settlement> {
  const { life, arrival, file } = call;
  const { script } = arrival;
  if (!life.alive) return never();
  simulation.judge.seeBegin(call, attempt.fence);
  await life.sleep(script.beforeMs);
  const { fence } = attempt;
  tx.stage(() => {
    const fact = file.attempts.get(fence);
    if (fact === undefined) {
      simulation.judge.complain('a transaction committed an effect without its record', file);
    } else simulation.judge.seeHappening(file, fact, null);
  });
  await life.sleep(script.afterMs);
  simulation.expectEnd(call, ENDING_MS, 'a transaction held its caller after its effect had ended');
  return end(simulation, call, null);
}

export function noteEnding(
  simulation: Simulation,
  fact: AttemptFact | null,
  ending: AttemptEnding,
): void {
  if (fact === null || fact.ending !== null) return;
  fact.ending = ending;
  fact.endedAt = simulation.scheduler.now;
}

/** What the policy makes of a throw. */
function endingOfThrow(error: unknown, policy: Policy): AttemptEnding {
  if (error instanceof OutcomeUnknown || policy.onThrow === 'in_doubt') return { as: 'doubt' };
  if (policy.onThrow === 'release') return { as: 'release' };
  return { as: 'settle', state: 'rejected', outcome: null };
}

function happens(ending: string): boolean {
  return !['release', 'throw_before', 'unknown_before'].includes(ending);
}

function never<T>(): Promise<T> {
  return new Promise(() => {});
}
